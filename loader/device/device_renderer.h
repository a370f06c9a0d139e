// Device renderer: pictures stay in a device's memory, photographs as coefficients and others as pixels, and batches
// are decoded, cropped, resized, recoloured and normalised there, by plan. This is the host's part of it, without a
// device: what is copied there and started there.
//
// Lives here: pictures in a device's memory and the kernels that decode and render them, in C++ that both the
// processor and CUDA compile.
// Not here: CUDA itself: train/resident compiles the kernels for a GPU and starts them.
//
// Five kernels make a batch. They are functions of (block, task), which a CUDA device compiles at run time
// (kernel_sources()) and which this library compiles for the processor (run_on_cpu()).
//
//   weigh    plans -> weights of the filters along the axes
//   decode   coefficient groups under the plans -> samples of the components. Not for pixels
//   color    samples -> pixels under the plans: chroma upsampling and colour conversion. Not for pixels
//   render   pixels -> rows of the batch: f32, f16 or bf16, N x C x H x W, normalised
//   recolor  colour steps of the rows that have any, and then their normalisation
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "augment/plan/plan.h"
#include "augment/render.h"
#include "loader/device/device_pictures.h"

namespace penstock {

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

/// What is the same for all batches of a run.
struct BatchShape {
  int rows = 0;
  Extent output;  ///< of a row
  Normalization normalization;
  Layout layout = Layout::kF32Nchw;  ///< a planar one, of f32, f16 or bf16
};

/// What differs from batch to batch, beside the jobs: which kernels they need, and how much memory.
struct KernelNeeds {
  bool weighs = false, recolors = false;     ///< some row asks for these kernels; others are not changed by them
  uint64_t group_count = 0, tile_count = 0;  ///< blocks that decode, and that convert colours
  uint64_t scratch_bytes = 0;

  friend bool operator==(const KernelNeeds&, const KernelNeeds&) = default;
};

constexpr size_t kKernelCount = 5;
/// The kernels of a batch, to be started one after the other. Some may have no blocks.
using KernelLaunches = std::array<KernelLaunch, kKernelCount>;
KernelLaunches kernel_launches(const BatchShape& shape, const KernelNeeds& needs);
/// The one argument of every kernel, passed by value.
std::vector<std::byte> kernel_arguments(const BatchShape& shape, const DeviceAddresses& addresses);

/// The plans of one batch as jobs for the kernels.
///
/// Equality: the rows are those of the loader with the same plans. run_on_cpu() gives render()'s bits; a device gives
/// them if its f32 and f64 arithmetic is IEEE's, which CUDA's is without fused products.
class KernelBatch {
 public:
  /// `output` is the size of every row. Both outlive this.
  KernelBatch(const DevicePictures& pictures, const Extent& output);
  ~KernelBatch();

  void clear();
  /// Appends a row. `scales_dct`: whether coefficients are decoded at the smallest DCT scale that the plan allows.
  /// Requires the output's size, and at least as many channels as the picture has.
  void add(size_t picture, const Plan& plan, bool scales_dct);
  /// Appends a row that shows no picture: all of its values are 0.
  void add_empty();

  static const size_t kJobBytes;            ///< The bytes of one row.
  std::span<const std::byte> jobs() const;  ///< To be copied to the device.
  const KernelNeeds& needs() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Runs the kernels on the processor, on one thread. `is_reversed`: see ThreadBlock.
void run_on_cpu(const KernelLaunches& launches, std::span<const std::byte> arguments, bool is_reversed = false);

/// The kernels' source, for a run-time compiler: first kernels.cu, then the headers under the names by which they are
/// included, those of the standard library too.
struct KernelSource {
  const char* name;
  const char* text;
};
std::span<const KernelSource> kernel_sources();

}  // namespace penstock
