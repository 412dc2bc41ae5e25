# Compiles for Linux on aarch64 on another machine; programs run under qemu. LAMINA_SYSROOT is a folder with the headers and libraries
# of the target, such as aarch64_sysroot.sh makes.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
foreach(language C CXX)
  set(CMAKE_${language}_COMPILER_TARGET aarch64-linux-gnu)
endforeach()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LAMINA_SYSROOT)
if(NOT IS_DIRECTORY "${LAMINA_SYSROOT}/usr/lib")
  message(FATAL_ERROR "no system for aarch64 is in LAMINA_SYSROOT (${LAMINA_SYSROOT}); this brings one: \
${CMAKE_CURRENT_LIST_DIR}/aarch64_sysroot.sh ${LAMINA_SYSROOT}")
endif()
set(CMAKE_SYSROOT ${LAMINA_SYSROOT})
include(${CMAKE_CURRENT_LIST_DIR}/clang.cmake)

find_program(LAMINA_QEMU_AARCH64 qemu-aarch64)
set(CMAKE_CROSSCOMPILING_EMULATOR ${LAMINA_QEMU_AARCH64};-L;${LAMINA_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
