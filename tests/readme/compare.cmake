# cmake -D PROGRAM=<file> -D EXPECTED=<file.txt> -D FOLDER=<folder> -P compare.cmake
#
# Runs a program in a folder and compares its output with the file EXPECTED; if that file is empty, only the exit code is
# checked.
cmake_minimum_required(VERSION 3.28)
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
execute_process(COMMAND ${PROGRAM} WORKING_DIRECTORY ${FOLDER}
  OUTPUT_VARIABLE printed ERROR_VARIABLE complaints RESULT_VARIABLE status)
message("${printed}${complaints}")
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${status}")
endif()
file(READ ${EXPECTED} expected)
if(expected AND NOT printed STREQUAL expected)
  message("the document says that it prints:\n${expected}")
  message(FATAL_ERROR "the output differs")
endif()
