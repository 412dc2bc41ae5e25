# lamina_missing(result): a message that says which required tools are missing or too old to compile the library's modules; empty
# if none. Used by the library's build and by the installed package.
function(lamina_missing result)
  set(compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  set(version "${CMAKE_CXX_COMPILER_VERSION}")
  string(REGEX REPLACE "\\..*" "" major "${version}")
  set(missing "")
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR version VERSION_LESS 19)
    set(missing "lamina needs Clang 19 to 22, and CMAKE_CXX_COMPILER is ${compiler} (${CMAKE_CXX_COMPILER}): configure a new \
build folder with -DCMAKE_CXX_COMPILER=clang++-19")
    if(PROJECT_IS_TOP_LEVEL AND PROJECT_NAME STREQUAL "lamina")
      string(APPEND missing ", or use a preset (cmake --workflow --preset release)")
    endif()
  elseif(CMAKE_VERSION VERSION_LESS 3.28)
    set(missing "lamina needs CMake 3.28 or newer for C++ modules, and this is ${CMAKE_VERSION}: pip install cmake brings one")
  elseif(NOT CMAKE_GENERATOR MATCHES "^Ninja")
    set(missing "lamina is built by Ninja, since CMake compiles C++ modules with Clang by no other generator, and this build folder \
uses ${CMAKE_GENERATOR}: configure a new build folder with -G Ninja")
  elseif(NOT CMAKE_CXX_COMPILER_CLANG_SCAN_DEPS)
    set(missing "lamina needs clang-scan-deps of ${compiler}, which finds what modules import: Debian has it in the package \
clang-tools-${major}")
  endif()
  set(${result} "${missing}" PARENT_SCOPE)
endfunction()

# lamina_untested(result): a note for a compiler that lamina_missing accepts but that has not been tested; empty for others.
function(lamina_untested result)
  set(untested "")
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 23)
    set(untested "lamina is tested with Clang 19 and 22, and this is Clang ${CMAKE_CXX_COMPILER_VERSION} \
(${CMAKE_CXX_COMPILER})")
  endif()
  set(${result} "${untested}" PARENT_SCOPE)
endfunction()
