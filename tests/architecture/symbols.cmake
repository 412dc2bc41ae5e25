# cmake -D NM=nm -D "ARCHIVES=a|b|c" -P symbols.cmake
#
# The archives of the instruction sets are compiled for different machines, so the linker must never have to choose
# between a symbol of one and the same symbol of another; and a kernel calls nothing but memory functions and libm.
cmake_minimum_required(VERSION 3.28)
string(REPLACE "|" ";" ARCHIVES "${ARCHIVES}")
set(outside "^(memcpy|memset|memmove|_GLOBAL_OFFSET_TABLE_|(\
acos|asin|atan|cos|sin|tan|acosh|asinh|atanh|cosh|sinh|tanh|exp|exp2|expm1|log|log2|log10|log1p|pow|sqrt|cbrt|hypot|\
erf|erfc|lgamma|tgamma|ceil|floor|trunc|round|rint|nearbyint|fabs|fmod|remainder|fma|fmin|fmax|ldexp|frexp|scalbn|\
copysign|nextafter|atan2|sincos)f?)$")

set(seen "")
foreach(archive IN LISTS ARCHIVES)
  execute_process(COMMAND ${NM} --format=posix ${archive} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" lines "${output}")
  set(defined "")
  set(undefined "")
  foreach(line IN LISTS lines)
    if(line MATCHES "^([^ ]+) ([A-Za-z])( |$)")
      set(symbol ${CMAKE_MATCH_1})
      if(CMAKE_MATCH_2 STREQUAL "U")
        list(APPEND undefined ${symbol})
      elseif(CMAKE_MATCH_2 MATCHES "[A-Zuvw]")
        list(APPEND defined ${symbol})
      endif()
    endif()
  endforeach()
  list(REMOVE_DUPLICATES defined)
  list(REMOVE_DUPLICATES undefined)
  if(NOT defined)
    message(FATAL_ERROR "${archive} defines nothing")
  endif()

  foreach(symbol IN LISTS defined)
    if(symbol IN_LIST seen)
      message(FATAL_ERROR "${symbol} of ${archive} stands in the archive of another set too")
    endif()
  endforeach()
  list(APPEND seen ${defined})
  foreach(symbol IN LISTS undefined)
    if(NOT symbol IN_LIST defined AND NOT symbol MATCHES "${outside}")
      message(FATAL_ERROR "${archive} needs ${symbol}, which is neither its own nor of memory or libm")
    endif()
  endforeach()
  list(LENGTH defined count)
  message("${archive}: ${count} symbols, none shared")
endforeach()
