# cmake -D NM=nm -D "ARCHIVES=a|b|c" -D HEADER=kernel_names.h -D OUTPUT=kernel_names.cpp -P kernel_names.cmake
#
# Writes the table of kernel_names.h: every function and every table of the archives that other objects can name.
cmake_minimum_required(VERSION 3.28)
string(REPLACE "|" ";" ARCHIVES "${ARCHIVES}")
execute_process(COMMAND ${NM} --defined-only --format=posix ${ARCHIVES} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\n[A-Za-z_][A-Za-z_0-9]* [TWVDR] " symbols "\n${output}")
list(TRANSFORM symbols REPLACE "\n([^ ]+) .*" "\\1")
list(REMOVE_DUPLICATES symbols)
list(LENGTH symbols count)
if(count EQUAL 0)
  message(FATAL_ERROR "no symbol in ${ARCHIVES}")
endif()

list(TRANSFORM symbols REPLACE "(.+)" "extern const char \\1[];" OUTPUT_VARIABLE declarations)
list(TRANSFORM symbols REPLACE "(.+)" "    {\\1, \"\\1\"}," OUTPUT_VARIABLE rows)
# A list is joined by newlines; semicolons that the lines themselves need are put back last.
string(REPLACE "[];" "[]@" declarations "${declarations}")
string(REGEX REPLACE "@;?" ";\n" declarations "${declarations}")
string(REPLACE ";" "\n" rows "${rows}")
file(WRITE ${OUTPUT} "// Made of the kernel archives by kernel_names.cmake.
#include \"${HEADER}\"

extern \"C\" {
${declarations}}

namespace lamina::bundle {

const kernel_name kernel_names[] = {
${rows}
};
const std::size_t kernel_name_count = ${count};

}  // namespace lamina::bundle
")
