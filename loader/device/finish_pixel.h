// finish_pixel(): what follows the colours of an output pixel: erased rectangles, then normalisation.
#pragma once

#include "loader/device/job.h"

namespace penstock::detail {

/// Replaces the levels by the values of the batch, as Finisher and erase() of augment do.
inline void finish_pixel(const KernelArguments& given, const RowJob& job, int row, int column, float (&levels)[3]) {
  for (int k = 0; k < job.erased_count; ++k) {
    const ErasedJob& rect = job.erased[k];
    if (row < rect.top || row >= rect.bottom || column < rect.left || column >= rect.right) continue;
    for (int i = 0; i < given.channels; ++i) levels[i] = rect.level[i];
  }
  for (int i = 0; i < given.channels; ++i) levels[i] = levels[i] * given.scale[i] + given.bias[i];
}

}  // namespace penstock::detail
