# Programs for aarch64, compiled by Clang and run under qemu. LAMINA_AARCH64 is true if the tools are installed.
# Debian packages: qemu-user, and g++-aarch64-linux-gnu for the headers and objects of the C and C++ libraries.
#
# lamina_aarch64_object(object source option...)     compiles a source; `object` is a path, and a rule of the build
# lamina_aarch64_kernel_test(name source argument...)   a Boost.Test program over the kernels alone: test name.aarch64
# The target lamina_kernels_aarch64 builds the archive of the kernels, LAMINA_AARCH64_KERNELS.
# Nothing is defined where all tests are for aarch64.
if(LAMINA_ON_AARCH64)
  return()
endif()
find_program(LAMINA_QEMU_AARCH64 qemu-aarch64)
set(LAMINA_AARCH64_COMPILE ${CMAKE_CXX_COMPILER} --target=aarch64-linux-gnu -std=c++20 -O2)
set(LAMINA_AARCH64_KERNELS ${PROJECT_BINARY_DIR}/modules/engine/kernels/aarch64-linux-gnu)
set(LAMINA_AARCH64_LINK ${CMAKE_CXX_COMPILER} --target=aarch64-linux-gnu -fuse-ld=lld -static)

if(NOT LAMINA_AARCH64 AND LAMINA_QEMU_AARCH64 AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize|-fprofile|-stdlib")
  set(try ${PROJECT_BINARY_DIR}/aarch64)
  file(WRITE ${try}.cpp "#include <string>\nint main(int, char** words) { return std::string(words[0]).size() == 0; }\n")
  execute_process(COMMAND ${LAMINA_AARCH64_LINK} ${try}.cpp -o ${try} RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(status EQUAL 0)
    execute_process(COMMAND ${LAMINA_QEMU_AARCH64} ${try} RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  endif()
  if(status EQUAL 0)
    set(LAMINA_AARCH64 TRUE CACHE INTERNAL "Programs for aarch64 can be made and run here")
  endif()
endif()
if(NOT LAMINA_AARCH64)
  message(STATUS "tests: none runs on aarch64, for want of qemu-user and g++-aarch64-linux-gnu, or in an instrumented build")
  return()
endif()

function(lamina_aarch64_object object source)
  add_custom_command(OUTPUT ${object}
    COMMAND ${LAMINA_AARCH64_COMPILE} ${ARGN} -MD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d COMMENT "Compiling ${object}" VERBATIM)
endfunction()

find_program(LAMINA_AR NAMES ar llvm-ar-19 llvm-ar REQUIRED)
file(MAKE_DIRECTORY ${LAMINA_AARCH64_KERNELS})
set(objects)
foreach(family ${LAMINA_KERNEL_FAMILIES})
  set(object ${LAMINA_AARCH64_KERNELS}/${family}.o)
  lamina_aarch64_object(${object} ${PROJECT_SOURCE_DIR}/modules/engine/kernels/${family}.cpp
    ${LAMINA_KERNEL_FLAGS} -DLAMINA_KERNEL_SET=neon64 -fPIC)
  list(APPEND objects ${object})
endforeach()
set(archive ${LAMINA_AARCH64_KERNELS}/liblamina_kernels_neon64.a)
add_custom_command(OUTPUT ${archive} COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
  COMMAND ${LAMINA_AR} rcs ${archive} ${objects} DEPENDS ${objects} VERBATIM)
add_custom_target(lamina_kernels_aarch64 ALL DEPENDS ${archive})

# A folder with only Boost's headers, which work for any processor; other headers beside them are for this machine.
find_path(boost_headers boost/test/included/unit_test.hpp REQUIRED NO_CACHE)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/aarch64_headers)
file(CREATE_LINK ${boost_headers}/boost ${PROJECT_BINARY_DIR}/aarch64_headers/boost SYMBOLIC)
set(main ${CMAKE_CURRENT_BINARY_DIR}/aarch64_test_main.o)
set(LAMINA_AARCH64_TEST_MAIN ${main})
lamina_aarch64_object(${main} ${PROJECT_SOURCE_DIR}/cmake/test_main.cpp -DLAMINA_TEST_HEADER_ONLY
  -isystem ${PROJECT_BINARY_DIR}/aarch64_headers)
add_custom_target(lamina_aarch64_test_main DEPENDS ${main})

function(lamina_aarch64_kernel_test name source)
  set(program ${CMAKE_CURRENT_BINARY_DIR}/${name}.aarch64)
  set(object ${program}.o)
  lamina_aarch64_object(${object} ${CMAKE_CURRENT_SOURCE_DIR}/${source} -I${PROJECT_SOURCE_DIR}/modules/engine/kernels
    -isystem ${PROJECT_BINARY_DIR}/aarch64_headers)
  set(archive ${LAMINA_AARCH64_KERNELS}/liblamina_kernels_neon64.a)
  add_custom_command(OUTPUT ${program}
    COMMAND ${LAMINA_AARCH64_LINK} ${object} ${LAMINA_AARCH64_TEST_MAIN} ${archive} -lm -o ${program}
    DEPENDS ${object} ${LAMINA_AARCH64_TEST_MAIN} ${archive} VERBATIM)
  add_custom_target(${name}_aarch64 ALL DEPENDS ${program})
  add_dependencies(${name}_aarch64 lamina_kernels_aarch64 lamina_aarch64_test_main)
  add_test(NAME ${name}.aarch64 COMMAND ${LAMINA_QEMU_AARCH64} ${program} ${ARGN})
  set_tests_properties(${name}.aarch64 PROPERTIES LABELS kernel)
endfunction()
