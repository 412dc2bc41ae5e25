# cmake -D NM=nm -D "ARCHIVES=a|b|c" -D HEADER=kernel_names.h -D OUTPUT=kernel_names.cpp -P kernel_names.cmake
#
# Writes the table of kernel_names.h: every externally visible function and table of the archives, with the archive
# member <family>.cpp.o that defines it.
cmake_minimum_required(VERSION 3.28)
string(REPLACE "|" ";" ARCHIVES "${ARCHIVES}")
execute_process(COMMAND ${NM} --defined-only --format=posix ${ARCHIVES} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "[" "<" output "${output}")       # brackets keep a list together
string(REPLACE "]" ">" output "${output}")
string(REGEX MATCHALL "[^\n]+" lines "${output}")
set(declarations "")
set(rows "")
set(count 0)
foreach(line IN LISTS lines)
  if(line MATCHES "<([a-z_]+)\\.cpp\\.o[^>]*>:$")
    set(family ${CMAKE_MATCH_1})
  elseif(line MATCHES "^([A-Za-z_][A-Za-z_0-9]*) [TWVDR] ")
    string(APPEND declarations "extern const char ${CMAKE_MATCH_1}[];\n")
    string(APPEND rows "    {${CMAKE_MATCH_1}, \"${CMAKE_MATCH_1}\", \"${family}\"},\n")
    math(EXPR count "${count} + 1")
  endif()
endforeach()
if(count EQUAL 0)
  message(FATAL_ERROR "no symbol in ${ARCHIVES}")
endif()
file(WRITE ${OUTPUT} "// Made of the kernel archives by kernel_names.cmake.
#include \"${HEADER}\"

extern \"C\" {
${declarations}}

namespace lamina::bundle {

const kernel_name kernel_names[] = {
${rows}};
const std::size_t kernel_name_count = ${count};

}  // namespace lamina::bundle
")
