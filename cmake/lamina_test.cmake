# lamina_test(name SOURCES file... [LABELS label...] [LIBRARIES library...] [ARGUMENTS argument...] [CORES n])
#
# Adds a Boost.Test program that may `import lamina;` and registers it with CTest.  Its sources include only
# <boost/test/unit_test.hpp> of Boost.Test: `main` comes from an object that all tests share.
# - A source that uses names the module does not export is a unit of the module: `module;`, includes, `module lamina;`.
# - LABELS defaults to unit.  Tests with a label of LAMINA_ISA_LABELS are registered once per instruction set that this
#   machine has, as name.sse2, name.avx2, name.avx512, name.neon64; the environment variable LAMINA_ISA selects the set.
# - Tests labeled static, compile_fail, consumer or sample are skipped if LAMINA_RELEASE_TESTS is off.
# - CORES is the number of cores that a timing test keeps busy; CTest runs other tests only on the remaining cores.
# - The target thread_tests builds the tests labeled thread.

# The instruction sets of this machine, by the names that LAMINA_ISA takes.
function(lamina_machine_sets result)
  set(sets sse2)
  if(LAMINA_ON_AARCH64)
    set(sets neon64)
  elseif(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo flags REGEX "^flags" LIMIT_COUNT 1)
    string(REGEX REPLACE "[ \t:]+" ";" flags "${flags}")
    set(needs_avx2 avx2 fma bmi1 bmi2 f16c movbe)
    set(needs_avx512 ${needs_avx2} avx512f avx512bw avx512dq avx512vl avx512cd)
    foreach(set avx2 avx512)
      set(missing ${needs_${set}})
      list(REMOVE_ITEM missing ${flags})
      if(NOT missing)
        list(APPEND sets ${set})
      endif()
    endforeach()
  endif()
  set(${result} ${sets} PARENT_SCOPE)
endfunction()
lamina_machine_sets(LAMINA_MACHINE_SETS)

# The Boost.Test runner: the shared library with libstdc++; with libc++, and for another machine, the header-only form, compiled once.
set(with_libcxx FALSE)
if(CMAKE_CXX_FLAGS MATCHES "-stdlib=libc\\+\\+")
  set(with_libcxx TRUE)
endif()
if(with_libcxx OR CMAKE_CROSSCOMPILING)
  find_package(Boost 1.74 CONFIG REQUIRED)
  add_library(lamina_test_main OBJECT ${CMAKE_CURRENT_LIST_DIR}/test_main.cpp)
  target_link_libraries(lamina_test_main PUBLIC Boost::headers)
  target_compile_definitions(lamina_test_main PRIVATE LAMINA_TEST_HEADER_ONLY)
else()
  set(Boost_USE_STATIC_LIBS OFF)
  find_package(Boost 1.74 CONFIG REQUIRED COMPONENTS unit_test_framework)
  add_library(lamina_test_main OBJECT ${CMAKE_CURRENT_LIST_DIR}/test_main.cpp)
  target_link_libraries(lamina_test_main PUBLIC Boost::unit_test_framework)
  target_compile_definitions(lamina_test_main PUBLIC BOOST_TEST_DYN_LINK)
endif()
if(with_libcxx)
  target_compile_definitions(lamina_test_main PUBLIC _LIBCPP_ENABLE_CXX17_REMOVED_UNARY_BINARY_FUNCTION)
else()
  # A precompiled header of Boost.Test for all tests, only with libstdc++: Clang 19 cannot merge libc++'s declarations in it
  # with those in a module.
  file(CONFIGURE OUTPUT test_header.cpp CONTENT "")
  add_library(lamina_test_header OBJECT ${CMAKE_CURRENT_BINARY_DIR}/test_header.cpp)
  target_link_libraries(lamina_test_header PRIVATE lamina_test_main)
  target_precompile_headers(lamina_test_header PRIVATE <boost/test/unit_test.hpp>)
endif()
if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 22)      # of __COUNTER__, by which Boost.Test names tests
  target_compile_options(lamina_test_main PUBLIC -Wno-c2y-extensions)
endif()
add_custom_target(thread_tests)

function(lamina_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "CORES" "SOURCES;LABELS;LIBRARIES;ARGUMENTS")
  if(test_UNPARSED_ARGUMENTS OR NOT test_SOURCES)
    message(FATAL_ERROR "lamina_test(${name}): give SOURCES, and no more than LABELS, LIBRARIES, ARGUMENTS, CORES")
  endif()
  if(NOT test_LABELS)
    set(test_LABELS unit)
  endif()
  if(NOT LAMINA_RELEASE_TESTS AND "${test_LABELS}" MATCHES "(^|;)(static|compile_fail|consumer|sample)(;|$)")
    return()
  endif()

  add_executable(${name} ${test_SOURCES})
  set_target_properties(${name} PROPERTIES CXX_SCAN_FOR_MODULES ON)
  if(TARGET lamina_test_header)
    target_precompile_headers(${name} REUSE_FROM lamina_test_header)
  endif()
  target_link_libraries(${name} PRIVATE lamina::lamina lamina_test_main ${test_LIBRARIES})
  if("thread" IN_LIST test_LABELS)
    add_dependencies(thread_tests ${name})
  endif()

  if(NOT test_CORES)
    set(test_CORES 1)
  endif()

  set(other_labels ${test_LABELS})
  list(REMOVE_ITEM other_labels ${LAMINA_ISA_LABELS})
  set(command ${name} ${test_ARGUMENTS})
  if(NOT other_labels STREQUAL test_LABELS)
    foreach(set ${LAMINA_MACHINE_SETS})
      add_test(NAME ${name}.${set} COMMAND ${command})
      set_tests_properties(${name}.${set} PROPERTIES LABELS "${test_LABELS}" PROCESSORS ${test_CORES} ENVIRONMENT LAMINA_ISA=${set})
    endforeach()
  else()
    add_test(NAME ${name} COMMAND ${command})
    set_tests_properties(${name} PROPERTIES LABELS "${test_LABELS}" PROCESSORS ${test_CORES})
  endif()
endfunction()

# Registers a suite of a test once more for each instruction set with VNNI, as name.without_vnni.avx2: with the int8
# products of processors without it.
function(lamina_test_without_vnni name suite)
  foreach(set avx2 avx512)
    if(set IN_LIST LAMINA_MACHINE_SETS)
      add_test(NAME ${name}.without_vnni.${set} COMMAND ${name} --run_test=${suite})
      set_tests_properties(${name}.without_vnni.${set} PROPERTIES LABELS unit ENVIRONMENT "LAMINA_ISA=${set};LAMINA_VNNI=0")
    endif()
  endforeach()
endfunction()
