# cmake -D MODULES=<folder modules> -P imports.cmake
#
# Reads the import lines of every module unit; fails if a module imports one that is listed later.
cmake_minimum_required(VERSION 3.28)

# Modules from the lowest layer up: a module imports only modules listed before it.
set(rooms
  base/std base/core base/cache base/shape base/policy base/context base/tensor base/random base/io
  engine/kernels engine/program engine/parameter engine/op engine/structure engine/expression engine/gradient engine/passes engine/plan
  engine/execute engine/quantize
  nets/layer nets/topology nets/model nets/protocol nets/serve nets/data nets/text nets/sound nets/train nets/graph
  doors/pictures doors/onnx doors/bundle doors/mpi doors/tensorboard)

file(GLOB_RECURSE units RELATIVE ${MODULES} ${MODULES}/*.cppm ${MODULES}/*.cpp)
list(SORT units)
set(complaints "")
set(count 0)

# The lines of a file that begin with module or import, one per list entry, without `export` and the closing semicolon.
function(module_lines result unit)
  file(READ ${MODULES}/${unit} text)
  string(REGEX MATCHALL "(^|\n)(export +)?(module|import) +[a-z_.:]+ *;" lines "${text}\n")
  set(clean "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "[\n;]|export +" "" line "${line}")
    string(REGEX REPLACE " +" " " line "${line}")
    string(STRIP "${line}" line)
    if(line)
      list(APPEND clean "${line}")
    endif()
  endforeach()
  set(${result} "${clean}" PARENT_SCOPE)
endfunction()

# The folder of each module or partition.
foreach(unit IN LISTS units)
  module_lines(lines ${unit})
  get_filename_component(folder ${unit} DIRECTORY)
  foreach(line IN LISTS lines)
    if(line MATCHES "^module (.+)$")
      set(name "${CMAKE_MATCH_1}")
      if(name STREQUAL "lamina")
        continue()
      endif()
      list(FIND rooms "${folder}" place)
      if(place EQUAL -1)
        list(APPEND complaints "${unit}: ${folder} is not a room of the tables")
      endif()
      string(REGEX REPLACE "^lamina(\\.[a-z]+)?:" ":" name "${name}")
      set("place_of_${name}" ${place})
    endif()
  endforeach()
endforeach()

foreach(unit IN LISTS units)
  get_filename_component(folder ${unit} DIRECTORY)
  list(FIND rooms "${folder}" here)
  if(here EQUAL -1)
    continue()
  endif()
  module_lines(lines ${unit})
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^import (.+)$")
      continue()
    endif()
    set(name "${CMAKE_MATCH_1}")
    math(EXPR count "${count} + 1")
    if(name STREQUAL "lamina" AND NOT folder MATCHES "^doors/")
      list(APPEND complaints "${unit}: imports the whole module lamina")
    elseif(name STREQUAL "lamina")
      continue()
    elseif(NOT DEFINED "place_of_${name}")
      list(APPEND complaints "${unit}: imports ${name}, which no unit declares")
    elseif("${place_of_${name}}" GREATER here)
      list(GET rooms "${place_of_${name}}" there)
      list(APPEND complaints "${unit}: imports ${name} of ${there}, a room below its own")
    endif()
  endforeach()
endforeach()

list(JOIN complaints "\n" text)
if(complaints)
  message("${text}")
  message(FATAL_ERROR "rooms import only rooms above them")
endif()
if(count EQUAL 0)
  message(FATAL_ERROR "no import lines found in ${MODULES}")
endif()
message("${count} imports, each of a room above its own")
