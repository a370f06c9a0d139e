// CUDA device: asks the run time, the driver and the environment, in the order in which they rule a device out.
#include "train/tensor/cuda_device.h"

#ifdef PENSTOCK_HAS_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#endif

#include <cstdlib>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "train/tensor/cuda_library.h"

namespace penstock {
namespace {

/// "13.0"
std::string cuda_version(int number) { return concat(number / 1000, ".", number % 1000 / 10); }

}  // namespace

NoDevice no_device() {
  NoDevice why;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    why.visible_devices = visible;
    why.has_visible_devices = true;
  }
#ifdef PENSTOCK_HAS_CUDA
  cudaRuntimeGetVersion(&why.runtime);
  cudaDriverGetVersion(&why.driver);
  int count = 0;
  if (const auto error = cudaGetDeviceCount(&count); error != cudaSuccess && error != cudaErrorNoDevice)
    why.error = cudaGetErrorString(error);
  why.library_problem = cuda_library_problem();
  cudaGetLastError();  // otherwise the next call of the run time would find it
#endif
  return why;
}

std::string no_device_text(const NoDevice& why) {
  if (why.runtime == 0) return "this LibTorch is without CUDA";
  if (!why.library_problem.empty()) return why.library_problem;
  if (why.driver == 0) return "there is no NVIDIA driver";
  if (why.driver < why.runtime)
    return concat("the NVIDIA driver is for CUDA ", cuda_version(why.driver), ", older than LibTorch's ",
                  cuda_version(why.runtime));
  if (!why.error.empty()) return why.error;
  if (why.has_visible_devices)
    return concat("CUDA_VISIBLE_DEVICES is ", in_quotes(why.visible_devices), ", which names no GPU of this machine");
  return "the driver counts none";
}

std::optional<int64_t> free_device_bytes([[maybe_unused]] const c10::Device& device) {
#ifdef PENSTOCK_HAS_CUDA
  // LibTorch has not allocated anything of this size yet, so that its cache counts for nothing.
  if (!device.is_cuda()) return std::nullopt;
  const c10::cuda::CUDAGuard guard(device);
  size_t free_bytes = 0, all_bytes = 0;
  if (cudaMemGetInfo(&free_bytes, &all_bytes) == cudaSuccess) return static_cast<int64_t>(free_bytes);
#endif
  return std::nullopt;
}

int64_t bytes_for_pictures(int64_t free_bytes) { return free_bytes - free_bytes / 8; }

int64_t pictures_that_fit(int64_t picture_count, int64_t byte_count, int64_t free_bytes) {
  const int64_t usable_bytes = bytes_for_pictures(free_bytes);
  if (byte_count <= usable_bytes) return picture_count;
  const double share = static_cast<double>(usable_bytes) / static_cast<double>(byte_count);
  return static_cast<int64_t>(share * static_cast<double>(picture_count));
}

std::string room_text(const char* what, int64_t picture_count, int64_t byte_count, int64_t free_bytes) {
  return concat("--resident: ", what, grouped(static_cast<uint64_t>(picture_count)), " pictures take ",
                byte_text(static_cast<uint64_t>(byte_count)), ", and ", byte_text(static_cast<uint64_t>(free_bytes)),
                " of the device's memory are free, of which an eighth is left for training; ");
}

std::string share_text(const char* what, int64_t picture_count, int64_t byte_count, int64_t free_bytes,
                       int64_t stay_count) {
  const double share = static_cast<double>(stay_count) / static_cast<double>(picture_count);
  return concat(room_text(what, picture_count, byte_count, free_bytes), grouped(static_cast<uint64_t>(stay_count)),
                " pictures, ", percent_text(share), " of them, stay there, and ");
}

void require_room(const char* what, int64_t picture_count, int64_t byte_count, int64_t free_bytes) {
  const int64_t fit = pictures_that_fit(picture_count, byte_count, free_bytes);
  if (fit == picture_count) return;
  throw device_error(concat(
      room_text(what, picture_count, byte_count, free_bytes), "expected at most ", grouped(static_cast<uint64_t>(fit)),
      " pictures, ", percent_text(static_cast<double>(fit) / static_cast<double>(picture_count)),
      " of them: more ranks with --shuffle rank-local, smaller pictures (shardprep pack --resize), or no --resident"));
}

}  // namespace penstock
