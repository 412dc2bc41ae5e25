# lamina_add_bundle(target MODEL file NAME name [INPUT shape...] [VALUE value...] [ENTRY name=shape...] [API static|dynamic]
#                   [ISA set] [TRIPLE system] [CPU processor] [OPTIONS option...])
#
# Links a net (file: NAME.onnx; NAME or NAME.json, with NAME.safetensors beside it) into a target as a bundle: at build time
# `lamina bundle` writes <name>.o, which the target links, <name>.h, which it can include, and <name>.weights, whose path is
# the macro <NAME>_WEIGHTS in the target's sources. The program `lamina` runs on the build machine: the one beside this file, or
# the one that LAMINA_PROGRAM names.
# - INPUT    8x1x28x28, or input=8x1x28x28 if the net has several inputs; open extents are 1 by default.
# - VALUE    sr=16000 or mask=mask.npy: an input of an ONNX model that becomes a constant.
# - ENTRY    another entry function, for other input shapes; all entries share the weights.
# - ISA      sse2, avx2, avx512 or neon64; by default the best instruction set of the build machine.
# - TRIPLE   the target system, such as aarch64-linux-gnu; required for cross-compiled projects. CPU: such as cortex-a72.
# - OPTIONS  more options of `lamina bundle --help`, such as --text or --instrument.
function(lamina_add_bundle target)
  cmake_parse_arguments(PARSE_ARGV 1 bundle "" "MODEL;NAME;API;ISA;TRIPLE;CPU" "INPUT;VALUE;ENTRY;OPTIONS")
  if(bundle_UNPARSED_ARGUMENTS OR NOT bundle_MODEL OR NOT bundle_NAME)
    message(FATAL_ERROR "lamina_add_bundle(${target}): give MODEL and NAME, and no more than INPUT, VALUE, ENTRY, API, ISA, TRIPLE, "
                        "CPU, OPTIONS")
  endif()
  if(TARGET lamina_tool AND NOT CMAKE_CROSSCOMPILING)
    set(tool $<TARGET_FILE:lamina_tool>)
  else()      # beside the installed package
    find_program(LAMINA_PROGRAM NAMES lamina HINTS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../bin
      ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../../bin NO_CMAKE_FIND_ROOT_PATH DOC "The program lamina, which writes bundles")
    if(NOT LAMINA_PROGRAM)
      message(FATAL_ERROR "lamina_add_bundle(${target}): the program `lamina` is not here; it is built with the library where "
                          "CLI11 is (libcli11-dev), or is named by LAMINA_PROGRAM")
    endif()
    set(tool ${LAMINA_PROGRAM})
  endif()

  string(REGEX REPLACE "\\.json$" "" model "${bundle_MODEL}")
  cmake_path(ABSOLUTE_PATH model BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  if(model MATCHES "\\.onnx$")
    set(model_files ${model})
  else()
    set(model_files ${model}.json ${model}.safetensors)
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}.bundle)
  set(files ${folder}/${bundle_NAME})
  set(options --name ${bundle_NAME} --out ${folder})
  foreach(shape IN LISTS bundle_INPUT)
    list(APPEND options --input ${shape})
  endforeach()
  foreach(value IN LISTS bundle_VALUE)
    list(APPEND options --value ${value})
  endforeach()
  foreach(entry IN LISTS bundle_ENTRY)
    list(APPEND options --entry ${entry})
  endforeach()
  if(bundle_API)
    list(APPEND options --api ${bundle_API})
  endif()
  if(bundle_ISA)
    list(APPEND options --isa ${bundle_ISA})
  endif()
  if(bundle_TRIPLE)
    list(APPEND options --target ${bundle_TRIPLE})
  endif()
  if(bundle_CPU)
    list(APPEND options --cpu ${bundle_CPU})
  endif()
  add_custom_command(OUTPUT ${files}.o ${files}.h ${files}.weights
    COMMAND ${tool} bundle ${model} ${options} ${bundle_OPTIONS}
    DEPENDS ${model_files} ${tool}
    COMMENT "Bundling ${bundle_NAME}" VERBATIM)
  set_source_files_properties(${files}.o PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  string(TOUPPER ${bundle_NAME} macro)
  target_sources(${target} PRIVATE ${files}.o ${files}.h)
  target_include_directories(${target} PRIVATE ${folder})
  target_compile_definitions(${target} PRIVATE ${macro}_WEIGHTS="${files}.weights")
  target_link_libraries(${target} PRIVATE m)
endfunction()
