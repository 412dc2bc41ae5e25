# cmake -D MODULES=<folder modules> -P operation_names.cmake
#
# Fails if a pass compares the name of an operation. Passes must use the traits in operations' definitions, so that
# user-defined operations are treated like built-in ones; a pattern for one operation names its class.
file(GLOB_RECURSE units RELATIVE ${MODULES} ${MODULES}/engine/*.cpp ${MODULES}/engine/*.cppm ${MODULES}/nets/*.cpp ${MODULES}/nets/*.cppm)
list(FILTER units EXCLUDE REGEX "^engine/(op|kernels)/")
set(count 0)
set(complaints "")
foreach(unit IN LISTS units)
  math(EXPR count "${count} + 1")
  file(STRINGS ${MODULES}/${unit} lines REGEX "(\\.is\\(|op->name *[!=]= *|[^_a-z]name *== *|op->name\\.starts_with\\()\"[a-z0-9_]+\"")
  foreach(line IN LISTS lines)
    string(STRIP "${line}" line)
    string(APPEND complaints "\n  ${unit}: ${line}")
  endforeach()
endforeach()
if(complaints)
  message(FATAL_ERROR "a pass asks an operation for its name:${complaints}")
elseif(count EQUAL 0)
  message(FATAL_ERROR "no units found in ${MODULES}")
endif()
