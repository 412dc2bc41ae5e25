# Fails if a binary contains the path of its source folder.
# -D BINARY=file -D FOLDER=path -D "KNOWN=expression for permitted paths"
file(STRINGS ${BINARY} found REGEX "${FOLDER}/")
list(FILTER found EXCLUDE REGEX "${KNOWN}")
if(found)
  list(LENGTH found count)
  list(SUBLIST found 0 5 found)
  list(JOIN found "\n  " found)
  # message first: CMake breaks lines at long paths
  message(FATAL_ERROR "a file tells of the machine that built it, ${count} times: ${BINARY}\n  ${found}")
endif()
