# cmake -D COMPILER=<of C> -D SOURCE=<file.c> -D BUNDLE=<path without ending> -D PROGRAM=<file> -D EXPECTED=<file.txt>
#   -P link_bundle.cmake
#
# Compiles a document's C program, links it with the bundle written by the document's other program, runs it in the
# bundle's folder, and compares its output with the document.
cmake_minimum_required(VERSION 3.28)
cmake_path(GET BUNDLE PARENT_PATH folder)
execute_process(COMMAND ${COMPILER} -std=c11 -Wall -Wextra -Werror -O2 -I${folder} ${SOURCE} ${BUNDLE}.o -lm -o ${PROGRAM}
  RESULT_VARIABLE status ERROR_VARIABLE complaints)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} is not compiled:\n${complaints}")
endif()
execute_process(COMMAND ${PROGRAM} WORKING_DIRECTORY ${folder} OUTPUT_VARIABLE printed RESULT_VARIABLE status)
file(READ ${EXPECTED} expected)
if(NOT status EQUAL 0 OR NOT printed STREQUAL expected)
  message(FATAL_ERROR "${PROGRAM} ended with ${status} and printed\n${printed}where the document has\n${expected}")
endif()
message("${printed}")
