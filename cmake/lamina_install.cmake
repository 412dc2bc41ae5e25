# Installs the library, the sources of its module interfaces (the consumer builds them with its own flags; compiled
# interfaces are not portable) and the package files for find_package(lamina).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lamina)

list(TRANSFORM LAMINA_KERNEL_SETS PREPEND lamina_kernels_ OUTPUT_VARIABLE archives)
list(APPEND archives lamina_pictures)
if(TARGET lamina_onnx)
  list(APPEND archives lamina_onnx)
endif()
if(TARGET lamina_tensorboard)
  list(APPEND archives lamina_tensorboard)
endif()
if(TARGET lamina_mpi)
  list(APPEND archives lamina_mpi)
endif()
install(TARGETS lamina lamina_kernels ${archives}
  EXPORT lamina-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET CXX_MODULES DESTINATION ${CMAKE_INSTALL_DATADIR}/lamina/modules)
# The kernels' sources, for bundles for other processors.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/modules/engine/kernels/ DESTINATION ${CMAKE_INSTALL_DATADIR}/lamina/kernels
  FILES_MATCHING PATTERN *.h PATTERN *.cpp)
install(EXPORT lamina-targets NAMESPACE lamina:: DESTINATION ${package_dir} CXX_MODULES_DIRECTORY modules)

# The processor that the kernels were compiled for, and the names that CMake may give it.
set(lamina_processor x86_64)
set(lamina_machines "x86_64|AMD64|amd64")
if(LAMINA_ON_AARCH64)
  set(lamina_processor aarch64)
  set(lamina_machines "aarch64|arm64")
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/lamina-config.cmake.in
  ${PROJECT_BINARY_DIR}/lamina-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lamina-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lamina-config.cmake ${PROJECT_BINARY_DIR}/lamina-config-version.cmake
  ${CMAKE_CURRENT_LIST_DIR}/lamina_bundle.cmake ${CMAKE_CURRENT_LIST_DIR}/lamina_requirements.cmake DESTINATION ${package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN *.md)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/samples DESTINATION ${CMAKE_INSTALL_DOCDIR})
