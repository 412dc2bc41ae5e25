# cmake -D CLANG_FORMAT=<program> -D STYLE=<file> -D FOLDERS=<folders> -P formatted.cmake
#
# Fails if a C++ file is not formatted according to .clang-format.
set(sources "")
foreach(folder IN LISTS FOLDERS)
  file(GLOB_RECURSE found ${folder}/*.cpp ${folder}/*.cppm ${folder}/*.h)
  list(APPEND sources ${found})
endforeach()
list(LENGTH sources count)
if(count EQUAL 0)
  message(FATAL_ERROR "no C++ files found in ${FOLDERS}")
endif()
execute_process(COMMAND ${CLANG_FORMAT} --style=file:${STYLE} --dry-run -Werror --ferror-limit=1 ${sources}
  RESULT_VARIABLE result ERROR_VARIABLE complaints)
if(NOT result EQUAL 0)
  message("${complaints}")  # before the message: FATAL_ERROR would wrap the lines
  message(FATAL_ERROR "not formatted as .clang-format says; run `clang-format-19 -i` on these files")
endif()
