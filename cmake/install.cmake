# cmake --install: the loader library with its headers and package files, and the tools.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS penstock EXPORT penstock-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(PENSTOCK_TOOLS)
  install(TARGETS shardprep loadbench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(PENSTOCK_TOOLS AND PENSTOCK_TRAIN)
  install(TARGETS train RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} )
endif()
foreach(folder core augment loader)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock
          FILES_MATCHING PATTERN "*.h" PATTERN "detail" EXCLUDE PATTERN "jpeg" EXCLUDE)
endforeach()
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)
install(EXPORT penstock-targets NAMESPACE penstock:: DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/penstock-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/penstock-config.cmake ${PROJECT_BINARY_DIR}/penstock-config-version.cmake
        DESTINATION ${package_folder})
