# Fails where a binary holds the path of the folder that it was built from.
# -D BINARY=file -D FOLDER=path -D "KNOWN=expression" of what may stand there
file(STRINGS ${BINARY} found REGEX "${FOLDER}/")
list(FILTER found EXCLUDE REGEX "${KNOWN}")
if(found)
  list(LENGTH found count)
  list(SUBLIST found 0 5 found)
  list(JOIN found "\n  " found)
  # the sentence comes first, as CMake breaks lines where a path is long
  message(FATAL_ERROR "a file tells of the machine that built it, ${count} times: ${BINARY}\n  ${found}")
endif()
