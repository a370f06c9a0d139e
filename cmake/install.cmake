# cmake --install: installs the loader library with its headers, package files and tools (component `loader`), and what needs
# LibTorch (component `train`).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)

# penstock_install_headers(COMPONENT PATTERN HEADER...): these headers, and what they include of folders that PATTERN fits.
function(penstock_install_headers component pattern)
  set(waiting ${ARGN})
  set(installed "")
  while(waiting)
    list(POP_FRONT waiting header)
    if(header IN_LIST installed)
      continue()
    endif()
    list(APPEND installed ${header})
    cmake_path(GET header PARENT_PATH folder)
    install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock/${folder}
            COMPONENT ${component})
    file(STRINGS ${PROJECT_SOURCE_DIR}/${header} includes REGEX "^#include \"${pattern}")
    list(TRANSFORM includes REPLACE "^#include \"(.*)\".*" "\\1")
    list(APPEND waiting ${includes})
  endwhile()
endfunction()

install(TARGETS penstock EXPORT penstock-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT loader)
if(PENSTOCK_TOOLS)
  install(TARGETS shardprep loadbench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT loader)
endif()
if(PENSTOCK_TOOLS AND PENSTOCK_TRAIN)
  install(TARGETS train RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT train)
endif()
if(PENSTOCK_TRAIN)
  install(TARGETS penstock_train EXPORT penstock-train-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT train)
  if(TARGET penstock_cuda)
    install(TARGETS penstock_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT train)
  endif()
  install(EXPORT penstock-train-targets NAMESPACE penstock:: DESTINATION ${package_folder} COMPONENT train)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/LibTorch.cmake DESTINATION ${package_folder} COMPONENT train)
  # docs/API.md names the same headers, and tests/contract compares the two.
  penstock_install_headers(train "(core|augment|loader|train)/"
    train/plugin.h train/tensor/batch_tensors.h train/nn/model.h train/nn/layers.h train/nn/drop.h train/losses/loss.h
    train/parallel/strategy/schedule.h train/parallel/strategy/strategy.h train/parallel/engine/make_by_plan.h train/sinks/sink.h)
endif()
penstock_install_headers(loader "(core|augment|loader)/"
  core/error.h core/plugin.h core/version.h augment/transform.h loader/shards/dataset.h loader/shards/pipeline_of.h
  loader/batch/loader.h loader/order/shuffle.h loader/samplers/sampler.h loader/rows/column.h loader/codecs/codec.h
  loader/sources/source.h loader/files/files.h loader/pack/pack.h loader/bottleneck/watch.h)
install(EXPORT penstock-targets NAMESPACE penstock:: DESTINATION ${package_folder} COMPONENT loader)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/penstock-config-version.cmake COMPATIBILITY SameMinorVersion)
configure_file(${PROJECT_SOURCE_DIR}/cmake/penstock-config.cmake.in ${PROJECT_BINARY_DIR}/penstock-config.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/penstock-config.cmake ${PROJECT_BINARY_DIR}/penstock-config-version.cmake
        DESTINATION ${package_folder} COMPONENT loader)
