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
  # What plug-ins, and programs with a model of their own, include.
  penstock_install_headers(train "(core|augment|loader|train)/" train/tensor/batch_tensors.h train/plugin.h train/losses/loss.h train/losses/metric.h train/losses/target.h
                           train/nn/attention.h train/nn/drop.h train/nn/layers.h train/nn/model.h train/parallel/engine/make_by_plan.h train/parallel/strategy/schedule.h
                           train/parallel/strategy/strategy.h train/sinks/sink.h)
endif()
# The loader's interface: docs/API.md names the same headers, and tests/contract compares the two.
penstock_install_headers(loader "(core|augment|loader)/"
  core/error.h core/plugin.h core/version.h augment/render.h augment/size_schedule.h augment/targets/boxes.h augment/transform.h
  loader/batch/digest.h loader/batch/loader.h loader/batch/option_names.h
  loader/rows/column.h loader/rows/sample_boxes.h loader/rows/sample_order.h loader/rows/substitutes.h
  loader/bottleneck/cache_model.h loader/bottleneck/disk.h loader/bottleneck/bottleneck.h loader/bottleneck/far_rate.h loader/bottleneck/observe.h loader/bottleneck/watch.h
  loader/codecs/codec.h loader/codecs/png_writer.h loader/files/field.h loader/device/device_renderer.h loader/files/files.h loader/files/read_from.h loader/files/safetensors.h
  loader/export/export.h loader/look/picture.h loader/look/sheet.h loader/order/partition.h loader/order/shuffle.h loader/order/shard_order.h loader/order/shard_schedule.h
  loader/order/order_audit.h loader/pack/pack.h loader/pack/codebook_file.h loader/pack/list.h loader/pack/merge.h loader/pack/storage_plan.h
  loader/pack/unpack.h
  loader/pack/verify.h loader/samplers/sampler.h loader/samplers/subset.h
  loader/cache/cache_options.h loader/cache/contents.h loader/far/link_json.h loader/far/sim_link.h
  loader/shards/dataset.h loader/shards/pipeline_of.h loader/shards/problems.h loader/shards/shard.h loader/shards/shard_writer.h
  loader/sources/local_fingerprint.h
  loader/sources/picture_files.h loader/sources/source.h)
install(EXPORT penstock-targets NAMESPACE penstock:: DESTINATION ${package_folder} COMPONENT loader)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/penstock-config-version.cmake COMPATIBILITY SameMinorVersion)
configure_file(${PROJECT_SOURCE_DIR}/cmake/penstock-config.cmake.in ${PROJECT_BINARY_DIR}/penstock-config.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/penstock-config.cmake ${PROJECT_BINARY_DIR}/penstock-config-version.cmake
        DESTINATION ${package_folder} COMPONENT loader)
