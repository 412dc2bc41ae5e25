# cmake -D SAMPLE=<file.cpp> -D MOST=<lines> -P length.cmake
#
# Fails where the lines of code between `// ---- the extension` and `// ---- its use` are more than MOST. A line that only
# closes braces is none.
cmake_minimum_required(VERSION 3.28)
file(READ ${SAMPLE} source)
string(FIND "${source}" "// ---- the extension\n" from)
string(FIND "${source}" "// ---- its use\n" to)
if(from EQUAL -1 OR to LESS from)
  message(FATAL_ERROR "${SAMPLE}: expected an extension between `// ---- the extension` and `// ---- its use`")
endif()
math(EXPR length "${to} - ${from}")
string(SUBSTRING "${source}" ${from} ${length} extension)
string(REGEX REPLACE "[^\n]*[A-Za-z][^\n]*\n" "l" lines_of_code "${extension}")
string(REGEX REPLACE "[^l]" "" lines_of_code "${lines_of_code}")
string(LENGTH "${lines_of_code}" lines)
math(EXPR lines "${lines} - 1")
# A notice is printed as it is; an error would be broken into lines by the length of the path.
message(NOTICE "${lines} lines of code, of at most ${MOST}")
if(lines GREATER MOST)
  message(FATAL_ERROR "${SAMPLE}: the extension is too long")
endif()
