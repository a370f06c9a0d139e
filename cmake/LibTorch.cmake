# LibTorch as one imported target, penstock_libtorch, from the torch wheel in .venv or from an unpacked LibTorch archive.
# find_package(Torch) of the wheel demands a CUDA toolkit, which may not fit the host compiler. Naming the folders needs no toolkit.
if(PENSTOCK_LIBTORCH)
  set(torch_root ${PENSTOCK_LIBTORCH})
else()
  file(GLOB torch_root ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
endif()
if(NOT EXISTS ${torch_root}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "penstock: no LibTorch at \"${torch_root}\"; run script/setup, give -DPENSTOCK_LIBTORCH=DIR, "
                      "or build the loader alone with -DPENSTOCK_TRAIN=OFF")
endif()
file(GLOB nvidia_root ${torch_root}/../nvidia)
set(PENSTOCK_HAS_CUDA OFF)
if(EXISTS ${torch_root}/lib/libtorch_cuda.so AND EXISTS ${nvidia_root}/cu13/include/cuda_runtime_api.h)
  set(PENSTOCK_HAS_CUDA ON)
endif()

add_library(penstock_libtorch INTERFACE)
target_include_directories(penstock_libtorch SYSTEM INTERFACE ${torch_root}/include ${torch_root}/include/torch/csrc/api/include)
target_compile_definitions(penstock_libtorch INTERFACE USE_C10D_GLOO USE_DISTRIBUTED USE_KINETO)
set(torch_rpath ${torch_root}/lib)
set(torch_libraries ${torch_root}/lib/libtorch_cpu.so ${torch_root}/lib/libc10.so)
if(PENSTOCK_HAS_CUDA)
  target_include_directories(penstock_libtorch SYSTEM INTERFACE ${nvidia_root}/cu13/include ${nvidia_root}/nccl/include)
  # PENSTOCK_HAS_CUDA is our own. USE_CUDA is for the headers of LibTorch, in which the layout of classes depends on it.
  target_compile_definitions(penstock_libtorch INTERFACE USE_CUDA USE_C10D_NCCL PENSTOCK_HAS_CUDA)
  list(APPEND torch_libraries ${torch_root}/lib/libc10_cuda.so -L${nvidia_root}/cu13/lib -l:libcudart.so.13)
  # For what uses libtorch_cuda by name. Everything else links to libraries that the CPU needs too, or small ones.
  add_library(penstock_libtorch_cuda INTERFACE)
  target_link_libraries(penstock_libtorch_cuda INTERFACE penstock_libtorch -Wl,--no-as-needed ${torch_root}/lib/libtorch_cuda.so
                        -L${nvidia_root}/nccl/lib -l:libnccl.so.2 -Wl,--as-needed)
  list(APPEND torch_rpath ${nvidia_root}/cu13/lib ${nvidia_root}/nccl/lib ${nvidia_root}/cudnn/lib)
  message(STATUS "penstock: LibTorch with CUDA at ${torch_root}; one build serves CPU and GPU, no CUDA toolkit is needed")
else()
  message(STATUS "penstock: LibTorch without CUDA at ${torch_root}; --device cuda and NCCL are switched off")
endif()
target_link_libraries(penstock_libtorch INTERFACE ${torch_libraries})
list(JOIN torch_rpath ":" torch_rpath_joined)
target_link_options(penstock_libtorch INTERFACE -Wl,-rpath,${torch_rpath_joined})
