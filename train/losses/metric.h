// Metric: what an evaluation says of outputs besides their loss, and by which the best weights are kept.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/tensor/device_batch.h"

namespace penstock {

/// A metric is made of what it takes of every batch, f64. These add up over batches and ranks, where it is a sum;
/// where it keeps rows, they follow each other.
class Metric {
 public:
  virtual ~Metric() = default;
  /// Whether scores() needs every row and not only sums.
  virtual bool keeps_rows() const { return false; }
  /// The numbers that of_batch() gives: in all, or per row.
  virtual int64_t size() const = 0;
  /// size() sums over the rows of weight above 0; of a metric that keeps rows: rows x size(), whose first number is the
  /// weight of the row.
  virtual torch::Tensor of_batch(const torch::Tensor& outputs, const DeviceBatch& rows) const = 0;

  /// "accuracy". The first one says which weights are the best.
  virtual std::vector<std::string> names() const = 0;
  /// How many classes scores() tells apart.
  virtual int64_t class_count() const { return 0; }
  /// One number for each of names(), then one per class, f64 on the CPU; nan where there is nothing to say it of.
  /// `all`: the sums, or the rows of weight above 0.
  virtual torch::Tensor scores(const torch::Tensor& all) const = 0;
  /// Whether less is better.
  virtual bool is_error() const { return false; }
};

/// The share of rows whose largest output is that of their class, of all and of each class.
std::unique_ptr<Metric> make_accuracy(int64_t class_count);

/// Average precision of each of `class_count` yes-or-no targets, and its mean over those that some row has. As
/// scikit-learn's average_precision_score: the sum over thresholds of (recall - recall before) * precision, without
/// interpolation; rows of equal outputs make one threshold.
///
/// Memory: at rank 0 16 bytes per row and class.
std::unique_ptr<Metric> make_average_precision(int64_t class_count);

/// Mean absolute error and root mean squared error over all targets, in this order or, with `squared_first`, the other.
std::unique_ptr<Metric> make_errors(bool squared_first);

}  // namespace penstock
