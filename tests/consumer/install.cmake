# cmake -D BUILD=tree -D PREFIX=folder -P install.cmake: a fresh prefix each time, without stale files.
file(REMOVE_RECURSE ${PREFIX})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX} COMMAND_ERROR_IS_FATAL ANY)
