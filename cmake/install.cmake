# cmake --install: the loader library with its headers, package files and tools (component `loader`), and what needs
# LibTorch (component `train`).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)
install(TARGETS penstock EXPORT penstock-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT loader)
if(PENSTOCK_TOOLS)
  install(TARGETS shardprep loadbench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT loader)
endif()
if(PENSTOCK_TOOLS AND PENSTOCK_TRAIN)
  install(TARGETS train RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT train)
endif()
if(PENSTOCK_TRAIN)
  install(TARGETS penstock_train EXPORT penstock-train-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT train)
  install(EXPORT penstock-train-targets NAMESPACE penstock:: DESTINATION ${package_folder} COMPONENT train)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/LibTorch.cmake DESTINATION ${package_folder} COMPONENT train)
  # What plug-ins, and programs with a model of their own, include.
  foreach(header batch_tensors comm/comm comm/rendezvous device_batch models/model models/shape optimizer plugin recorder strategies/strategy)
    cmake_path(GET header PARENT_PATH folder)
    install(FILES ${PROJECT_SOURCE_DIR}/train/${header}.h
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock/train/${folder} COMPONENT train)
  endforeach()
endif()
foreach(folder core augment loader)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock COMPONENT loader
          FILES_MATCHING PATTERN "*.h" PATTERN "detail" EXCLUDE PATTERN "jpeg" EXCLUDE)
endforeach()
install(EXPORT penstock-targets NAMESPACE penstock:: DESTINATION ${package_folder} COMPONENT loader)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/penstock-config-version.cmake COMPATIBILITY SameMinorVersion)
configure_file(${PROJECT_SOURCE_DIR}/cmake/penstock-config.cmake.in ${PROJECT_BINARY_DIR}/penstock-config.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/penstock-config.cmake ${PROJECT_BINARY_DIR}/penstock-config-version.cmake
        DESTINATION ${package_folder} COMPONENT loader)
