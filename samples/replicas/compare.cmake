# Runs the sample alone and with two processes: the weights have to be the same bytes.
set(short --examples 2000 --epochs 1)
execute_process(COMMAND ${PROGRAM} ${WORK}/alone ${short} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${MPIRUN} --oversubscribe -n 2 ${PROGRAM} ${WORK}/two ${short} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${WORK}/alone ${WORK}/two COMMAND_ERROR_IS_FATAL ANY)
