# cmake -D PROGRAM=linear_layer -D ARCHIVE=liblamina_kernels_<set>.a -D SET=<set> -D NM=nm -D LD=ld -D SIZE=size
#       -D OUTPUT=file.o [-D MORE=archive -D ROOT=symbol] -P linear_layer.cmake
#
# Links only the kernels of one linear layer into a relocatable object. The object must be small and may call only memcpy,
# memset and libm. MORE and ROOT add a function of another archive.
cmake_minimum_required(VERSION 3.28)
include(${CMAKE_CURRENT_LIST_DIR}/libm.cmake)
set(limit 24576)

execute_process(COMMAND ${PROGRAM} ${SET} OUTPUT_VARIABLE addresses COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[0-9a-f]+" addresses "${addresses}")
list(REMOVE_DUPLICATES addresses)
execute_process(COMMAND ${NM} ${PROGRAM} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
set(roots "")
foreach(address IN LISTS addresses)
  if(NOT symbols MATCHES "(^|\n)${address} [Tt] ([^\n]+)\n")
    message(FATAL_ERROR "no symbol at ${address}")
  endif()
  list(APPEND roots ${CMAKE_MATCH_2})
endforeach()
list(POP_FRONT roots driver)
list(TRANSFORM roots PREPEND "--undefined=" OUTPUT_VARIABLE more)
if(ROOT)
  list(APPEND more --undefined=${ROOT})
endif()
execute_process(COMMAND ${LD} -r --gc-sections -e ${driver} -u ${driver} ${more} -o ${OUTPUT} ${ARCHIVE} ${MORE}
  COMMAND_ERROR_IS_FATAL ANY)

execute_process(COMMAND ${NM} -u --format=posix ${OUTPUT} OUTPUT_VARIABLE undefined COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n ]+ U" undefined "${undefined}")
foreach(symbol IN LISTS undefined)
  if(NOT symbol MATCHES "^(memcpy|memset|_GLOBAL_OFFSET_TABLE_|${libm}) U$")
    message(FATAL_ERROR "the object needs ${symbol}, which is neither memcpy nor memset nor of libm")
  endif()
endforeach()

execute_process(COMMAND ${SIZE} -A ${OUTPUT} OUTPUT_VARIABLE sections COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\n\\.text[^ \n]* +[0-9]+" sections "${sections}")
set(text 0)
foreach(section IN LISTS sections)
  string(REGEX MATCH "[0-9]+$" bytes "${section}")
  math(EXPR text "${text} + ${bytes}")
endforeach()
message("${SET}: ${text} bytes of text: ${driver};${roots}")
if(text EQUAL 0 OR text GREATER limit)
  message(FATAL_ERROR "${text} bytes of text, where at most ${limit} are allowed")
endif()
