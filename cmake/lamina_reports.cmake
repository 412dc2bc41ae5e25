# Reports over the whole tree: coverage (preset coverage) and clang-tidy (preset tidy).
if(LAMINA_COVERAGE)
  find_program(LAMINA_LLVM_PROFDATA NAMES llvm-profdata-19 llvm-profdata REQUIRED)
  find_program(LAMINA_LLVM_COV NAMES llvm-cov-19 llvm-cov REQUIRED)
  add_custom_target(coverage_report
    COMMAND ${CMAKE_COMMAND} -D PROFDATA=${LAMINA_LLVM_PROFDATA} -D COV=${LAMINA_LLVM_COV}
      -D SOURCE=${PROJECT_SOURCE_DIR} -D BUILD=${PROJECT_BINARY_DIR}
      -P ${CMAKE_CURRENT_LIST_DIR}/coverage_report.cmake
    USES_TERMINAL VERBATIM)
endif()

if(LAMINA_TIDY)
  # Runs as a test, after the build, because clang-tidy reads the compiled module interfaces.
  enable_testing()
  find_program(LAMINA_RUN_CLANG_TIDY NAMES run-clang-tidy-19 run-clang-tidy REQUIRED)
  find_program(LAMINA_CLANG_TIDY NAMES clang-tidy-19 clang-tidy REQUIRED)
  add_test(NAME tidy COMMAND ${LAMINA_RUN_CLANG_TIDY} -quiet -clang-tidy-binary ${LAMINA_CLANG_TIDY}
    -p ${PROJECT_BINARY_DIR} "^${PROJECT_SOURCE_DIR}/(modules|tests|samples|tools|bench)/")
  set_tests_properties(tidy PROPERTIES LABELS tidy TIMEOUT 7200)
endif()
