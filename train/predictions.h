// Predictions: what an evaluation says of every sample and every class, as evaluation.csv and counts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "loader/dataset.h"
#include "train/comm/comm.h"
#include "train/device_batch.h"

namespace penstock {

class AtomicFile;

/// The samples of a class: all, those whose class has the largest logit, those whose class is among the largest five.
struct ClassTally {
  int64_t count = 0, hit_count = 0, top5_count = 0;
  std::map<int64_t, int64_t> predictions;  ///< Class -> samples that were taken for it; without zeros.
};

/// Collects what every rank predicts, batch by batch, at rank 0, and writes a line for each sample in the order of the
/// data set: `id,path,label,prediction,top5,loss`, with labels by name. Top-5: fewer than five classes have a larger
/// logit than the label's. Rows of weight 0 (padding) count nowhere.
///
/// Memory: a batch of all ranks, and numbers for each class and each pair of classes that occurs; not for each sample.
/// Errors: io_error. Thread-safety: the training thread's alone.
class Predictions {
 public:
  /// Requires batches of an unshuffled pass over `dataset`, of which rank 0 has all shards. Elsewhere nothing is
  /// written.
  Predictions(Comm& comm, std::shared_ptr<const Dataset> dataset, const std::filesystem::path& csv);
  ~Predictions();

  void add(const DeviceBatch& batch, const torch::Tensor& logits);  ///< Collective.
  /// Rank 0: the file appears under its name.
  void commit();

  const std::vector<ClassTally>& classes() const { return classes_; }  ///< Rank 0: one entry for each class.

 private:
  void write_row(const double* row);

  Comm& comm_;
  std::shared_ptr<const Dataset> dataset_;
  std::unique_ptr<AtomicFile> csv_;  // none but at rank 0
  std::vector<ClassTally> classes_;
};

}  // namespace penstock
