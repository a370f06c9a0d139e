// The library is opened by a static object, because LibTorch asks only once whether it has CUDA.
#include "train/tensor/cuda_library.h"

#include <dlfcn.h>

#include <filesystem>

namespace penstock {
namespace {

[[maybe_unused]] const char kOfThisLibrary = 0;

std::string load_cuda_library() {
#ifdef PENSTOCK_HAS_CUDA
  if (dlopen("libcuda.so.1", RTLD_LAZY) == nullptr) return {};  // as CUDA's run time looks for the driver
  Dl_info own{};
  if (dladdr(&kOfThisLibrary, &own) == 0) return "the folder of libpenstock_train.so is not known";
  const auto path = std::filesystem::path(own.dli_fname).replace_filename("libpenstock_cuda.so");
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) return dlerror();
#endif
  return {};
}

const std::string kCudaLibraryProblem = load_cuda_library();

}  // namespace

const std::string& cuda_library_problem() { return kCudaLibraryProblem; }

}  // namespace penstock
