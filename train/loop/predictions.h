// Predictions: what an evaluation says about each sample (evaluation.csv) and each class (counts).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "loader/shards/dataset.h"
#include "train/comm/comm.h"
#include "train/tensor/device_batch.h"

namespace penstock {

class AtomicFile;

/// Counts of the samples of one class: all, those whose class has the largest logit, and those whose class is among the
/// five largest.
struct ClassTally {
  int64_t count = 0, hit_count = 0, top5_count = 0;
  std::map<int64_t, int64_t> predictions;  ///< Predicted class -> samples of this class; without zeros.
};

/// Collects the predictions of all ranks at rank 0, batch by batch, and writes one line per sample in the order of the
/// data set: `id,path,label,prediction,top5,loss`, with labels as names. top5 is 1 if fewer than five classes have a
/// larger logit than the label. Rows of weight 0 do not count.
///
/// Memory: one batch of all ranks, and counts for each class and for each pair of classes that occurs; none per sample.
/// Errors: io_error. Thread-safety: for the training thread only.
class Predictions {
 public:
  /// Requires that the batches are those of an unshuffled pass over `dataset`, and that rank 0 has all shards open.
  /// Only rank 0 writes.
  Predictions(Comm& comm, const torch::Device& device, std::shared_ptr<const Dataset> dataset,
              const std::filesystem::path& csv);
  ~Predictions();

  /// Collective. `logits` and the rows' `losses` are undefined at a rank that has none.
  void add(const DeviceBatch& batch, const torch::Tensor& logits, const torch::Tensor& losses);
  /// Rank 0 only: makes the file appear under its name.
  void commit();

  const std::vector<ClassTally>& classes() const { return classes_; }  ///< Rank 0 only: one entry per class.

 private:
  void write_row(const double* row);

  Comm& comm_;
  torch::Device device_;
  std::shared_ptr<const Dataset> dataset_;
  std::unique_ptr<AtomicFile> csv_;  // null except at rank 0
  std::vector<ClassTally> classes_;
};

}  // namespace penstock
