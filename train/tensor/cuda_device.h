// CUDA device: why none is visible, and how much memory one has left.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>

namespace penstock {

/// What the run time and the environment say where no device is visible.
struct NoDevice {
  int driver = 0, runtime = 0;       ///< Versions of CUDA as 1000 * major + 10 * minor; driver 0: there is none.
  std::string error = {};            ///< What the run time says; "" if it counts 0 devices.
  std::string library_problem = {};  ///< As cuda_library_problem().
  std::string visible_devices = {};  ///< CUDA_VISIBLE_DEVICES.
  bool has_visible_devices = false;  ///< Whether it is set.
};

NoDevice no_device();                             ///< Requires that no device is visible.
std::string no_device_text(const NoDevice& why);  ///< "the NVIDIA driver is for CUDA 12.4, older than LibTorch's 13.0"

/// Bytes that this process can still allocate on a CUDA device; nothing on the CPU.
std::optional<int64_t> free_device_bytes(const c10::Device& device);

/// How many of them pictures may take. The rest is for the gradients, activations and workspaces of a step, which
/// nobody knows before the first one; the model and the state of its optimiser have taken their memory before. The
/// eighth is chosen, not measured: 18 GB of an H200.
int64_t bytes_for_pictures(int64_t free_bytes);

/// How many of `picture_count` pictures of `byte_count` bytes in all may stay in a device with so many free bytes.
int64_t pictures_that_fit(int64_t picture_count, int64_t byte_count, int64_t free_bytes);
/// "--resident: 60,000 pictures take 47.0 MB, and 39.2 MB of the device's memory are free, of which an eighth is left
/// for training; ". `what` stands before "60,000 pictures take": nothing, or "the coefficients of ".
std::string room_text(const char* what, int64_t picture_count, int64_t byte_count, int64_t free_bytes);
/// room_text() and "55 pictures, 42 % of them, stay there, and ".
std::string share_text(const char* what, int64_t picture_count, int64_t byte_count, int64_t free_bytes,
                       int64_t stay_count);

/// Throws device_error with both numbers, and how many pictures would fit, unless `byte_count` bytes are at most
/// bytes_for_pictures(free_bytes). `what` stands before "60,000 pictures take": nothing, or "the coefficients of ".
void require_room(const char* what, int64_t picture_count, int64_t byte_count, int64_t free_bytes);

}  // namespace penstock
