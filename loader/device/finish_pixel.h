// finish_pixel(): what follows the colours of an output pixel: erased rectangles, normalisation, and the output's type.
#pragma once

#include "augment/pixels/half.h"
#include "loader/device/job.h"

namespace penstock::detail {

/// A pixel of the batch.
struct OutputPixel {
  int32_t batch_row, row, column;
};

/// Writes a value of the batch, rounded to nearest even where its type is f16 or bf16.
inline void store_value(const KernelArguments& given, const OutputPixel& at, int channel, float value) {
  const auto plane = static_cast<int64_t>(at.batch_row) * given.channels + channel;
  const int64_t index = (plane * given.output_height + at.row) * given.output_width + at.column;
  if (given.element == Element::kF32)
    static_cast<float*>(given.output)[index] = value;
  else
    static_cast<uint16_t*>(given.output)[index] = given.element == Element::kF16 ? f16_bits(value) : bf16_bits(value);
}

/// Writes the values of a pixel of these levels, as Finisher and erase() of augment do. `job` is the row's.
inline void finish_pixel(const KernelArguments& given, const RowJob& job, const OutputPixel& at, float (&levels)[3]) {
  for (int k = 0; k < job.erased_count; ++k) {
    const ErasedJob& rect = job.erased[k];
    if (at.row < rect.top || at.row >= rect.bottom || at.column < rect.left || at.column >= rect.right) continue;
    for (int i = 0; i < given.channels; ++i) levels[i] = rect.level[i];
  }
  for (int i = 0; i < given.channels; ++i) store_value(given, at, i, levels[i] * given.scale[i] + given.bias[i]);
}

/// The levels of a row with colour steps: f32, C x H x W.
inline float* planes_of(const KernelArguments& given, const RowJob& job) {
  return reinterpret_cast<float*>(given.scratch + job.planes);
}

}  // namespace penstock::detail
