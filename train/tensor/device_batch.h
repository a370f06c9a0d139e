// DeviceBatch: one rank's part of a global batch as tensors on its device.
//
// Lives here: tensors on a device: batches, their memory and files, sums in a fixed order, allocators, the state of
// random generators, messages about missing memory.
// Not here: layers (train/nn), and anything that knows of ranks (train/comm).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <string>

namespace penstock {

/// Rows 0 .. count-1 hold samples, the others are padding rows. Valid until the next call of Feeder::next().
struct DeviceBatch {
  torch::Tensor images;   // f32, of resident pictures also f16 or bf16: rows x C x H x W, normalised
  torch::Tensor labels;   // i64 rows
  torch::Tensor weights;  // f32 rows: 1, or 0 for padding and masked rows
  // Defined only with mixup or cutmix: i64 rows, and f32 rows, the share that `labels` have in the loss.
  torch::Tensor second_labels, mix_weights;
  std::map<std::string, torch::Tensor> columns;  // those of makers (loader/rows/column.h), by name: rows x shape
  int64_t epoch = 0, index = 0;
  uint64_t first_position = 0;  // row i has position first_position + i in the epoch
  int64_t rows = 0, count = 0;
  int64_t global_count = 0;   // samples of all ranks in this batch: loss and gradients are divided by it; masked rows
                              // count as well
  int64_t corrupt_count = 0;  // rows of this rank whose samples are corrupt, and are masked or substituted

  /// `row_count` rows from `first_row` on, as views.
  DeviceBatch narrow(int64_t first_row, int64_t row_count) const {
    DeviceBatch some = *this;
    for (auto* column : {&some.images, &some.labels, &some.weights, &some.second_labels, &some.mix_weights})
      if (column->defined()) *column = column->narrow(0, first_row, row_count);
    for (auto& [name, column] : some.columns) column = column.narrow(0, first_row, row_count);
    some.first_position += static_cast<uint64_t>(first_row);
    some.rows = some.count = row_count;
    return some;
  }
};

}  // namespace penstock
