// BatchPlanner: a batch of resident pictures as what its kernels read, before anything is on the device.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "loader/batch/loader.h"
#include "loader/device/device_renderer.h"
#include "loader/rows/sample_order.h"
#include "loader/rows/substitutes.h"
#include "train/resident/resident_pictures.h"
#include "train/tensor/device_batch.h"

namespace penstock {

/// A batch as bytes that are copied to the device at once: a job per row, then the labels, then the weights. Rows
/// without a sample have an empty job.
struct PlannedBatch {
  DeviceBatch batch;    ///< Without tensors.
  torch::Tensor bytes;  ///< u8, of batch_plan_bytes(). Those of a multiple of 16, so that they begin aligned.
  KernelNeeds needs;
  std::vector<int64_t> host_rows;  ///< Rows whose pictures are not on the device: their jobs are empty.
};

int64_t batch_plan_bytes(int64_t rows);
/// Views of the bytes, on whatever device they are: i64 rows, and f32 rows, 0 for corrupt samples and for padding.
torch::Tensor planned_labels(const torch::Tensor& bytes, int64_t rows);
torch::Tensor planned_weights(const torch::Tensor& bytes, int64_t rows);

/// Equality: samples, plans and order are those of a loader with these options.
/// Thread-safety: one thread. The arguments outlive this, and are only read.
class BatchPlanner {
 public:
  BatchPlanner(const Dataset& dataset, const ResidentPictures& pictures, const Pipeline& pipeline,
               const SampleOrder& order, const LoaderOptions& options);

  /// Writes the bytes of batch `index` of `epoch` to `to`. The result's own `bytes` are undefined.
  PlannedBatch plan(int64_t epoch, int64_t index, std::byte* to);

 private:
  void add_row(SampleOrder::Place place, int64_t row, PlannedBatch& planned, int64_t* labels, float* weights);
  SampleOrder::Place substitute(const SampleOrder::Place& corrupt, int64_t epoch, uint64_t position) const;

  const ResidentPictures& pictures_;
  const Pipeline& pipeline_;
  const SampleOrder& order_;
  const LoaderOptions& options_;
  const bool scales_dct_;
  const Substitutes substitutes_;
  EpochOrder epoch_order_;
  int64_t epoch_ = 0;
  KernelBatch work_;
};

}  // namespace penstock
