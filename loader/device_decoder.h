// Device decoder: photographs stay in a device's memory as coefficients, and batches are decoded, cropped, resized and
// normalised there, by plan. This is the host's part of it, without a device: what is copied there and started there.
//
// Five kernels make a batch. They are functions of (block, task), which a CUDA device compiles at run time
// (kernel_sources()) and which this library compiles for the processor (run_on_cpu()).
//
//   weigh    plans -> weights of the antialias filter
//   decode   coefficient groups under the plans -> samples of the components
//   color    samples -> pixels under the plans: chroma upsampling and colour conversion
//   render   pixels -> rows of the batch: f32, f16 or bf16, N x C x H x W, normalised
//   recolor  colour steps of the rows that have any, and then their normalisation
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "augment/plan.h"
#include "augment/render.h"
#include "loader/shard.h"

namespace penstock {

/// What the host knows of the pictures on the device: header, place and tables of each. The stores themselves are
/// copied to the device by the caller.
///
/// Memory: 48 bytes per picture, 66 KB per codebook. Thread-safety: add() is for one thread; const members for any.
class DevicePictures {
 public:
  DevicePictures();
  ~DevicePictures();

  struct Added {
    size_t number = 0;
    std::span<const uint8_t> store;  ///< A part of the sample's bytes, to be copied to `begin` among the stores.
    uint64_t begin = 0;              ///< The bytes after it up to byte_count() must be 0.
  };
  /// Adds a sample, whose codebook must live as long as this object. Throws config_error for a sample that is not
  /// stored as coefficients, and corrupt_error for what the coefficient codec would refuse before it decodes anything.
  /// The messages state only the fact; the caller puts where() before them.
  Added add(const Sample& sample);

  size_t size() const;
  uint64_t byte_count() const;  ///< Bytes of all stores on the device.
  /// An upper bound of what add() adds to byte_count() for a sample of this many bytes.
  static uint64_t byte_count_of(uint64_t sample_bytes);
  Plan whole(size_t number) const;               ///< The plan that shows the picture upright.
  std::span<const std::byte> codebooks() const;  ///< To be copied to the device as they are, after the last add().
  std::span<const std::byte> quant_tables() const;

 private:
  friend class KernelBatch;
  struct State;
  std::unique_ptr<State> state_;
};

/// A kernel to start: its name in the sources, the threads of a block, and the number of blocks.
struct KernelLaunch {
  const char* name = "";
  int threads = 0;
  uint64_t blocks = 0;
};

/// Addresses in the memory that the kernels run on.
struct DeviceAddresses {
  const void *stores = nullptr, *codebooks = nullptr, *quant_tables = nullptr, *jobs = nullptr;
  void* scratch = nullptr;  ///< KernelBatch::scratch_bytes(); need not be cleared
  void* output = nullptr;   ///< N x C x H x W, of the layout of the batch
  uint32_t* status =
      nullptr;  ///< One entry per row, 0 before the first kernel. Afterwards 1 for a row that is corrupt.
};

/// One batch: its plans as jobs for the kernels.
///
/// Equality: the rows are those of the loader with the same plans. run_on_cpu() gives render()'s bits; a device gives
/// them if its f32 and f64 arithmetic is IEEE's, which CUDA's is without fused products.
class KernelBatch {
 public:
  /// `channels` are those of the output. Requires a planar layout.
  KernelBatch(const DevicePictures& pictures, const Normalization& normalization, int channels,
              Layout layout = Layout::kF32Nchw);
  ~KernelBatch();

  void clear();
  /// Appends a row. `scales_dct`: whether the picture is decoded at the smallest DCT scale that the plan allows.
  /// Requires one output size for all rows, and at least as many channels as the picture has components.
  void add(size_t picture, const Plan& plan, bool scales_dct);
  /// Appends a row that shows no picture: level 0, normalised. It costs nothing but the writing of its pixels, and is
  /// for rows that come from elsewhere and are copied over it. Requires the output size of the other rows.
  void add_empty(int output_height, int output_width);

  std::span<const std::byte> jobs() const;  ///< To be copied to the device.
  uint64_t scratch_bytes() const;
  /// The one argument of every kernel, passed by value.
  std::span<const std::byte> arguments(const DeviceAddresses& addresses);
  static constexpr size_t kKernelCount = 5;
  /// To be started one after the other. Some may have no blocks.
  std::array<KernelLaunch, kKernelCount> launches() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Runs the kernels on the processor, on one thread. `is_reversed`: see ThreadBlock.
void run_on_cpu(const KernelBatch& batch, std::span<const std::byte> arguments, bool is_reversed = false);

/// The kernels' source, for a run-time compiler: first kernels.cu, then the headers under the names by which they are
/// included, those of the standard library too.
struct KernelSource {
  const char* name;
  const char* text;
};
std::span<const KernelSource> kernel_sources();

}  // namespace penstock
