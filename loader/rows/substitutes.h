// Substitutes: which samples may have the row of a corrupt one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "loader/rows/sample_order.h"
#include "loader/shards/dataset.h"

namespace penstock {

/// Candidates for a position of an epoch: samples of the same class, among those that the epoch may have. Which they
/// are follows from (seed, epoch, position, number of the candidate) and the samples.
///
/// Memory: none until a sample is corrupt, then 8 bytes per sample. Thread-safety: several threads may ask.
class Substitutes {
 public:
  static constexpr int kMost = 8;  ///< Candidates per position.

  /// The arguments outlive it.
  Substitutes(const Dataset& dataset, const SampleOrder& samples, uint64_t seed)
      : dataset_(dataset), samples_(samples), seed_(seed) {}

  /// Candidate `number`, below kMost, which may be corrupt too. Its `copy` is that of no other row of the epoch, but by
  /// a chance of 2^-32 per row.
  SampleOrder::Place candidate(int64_t label, int64_t epoch, uint64_t position, int number) const;

 private:
  size_t class_of(int64_t label) const;
  void find_members() const;

  const Dataset& dataset_;
  const SampleOrder& samples_;
  uint64_t seed_;
  mutable std::once_flag is_found_;
  mutable std::vector<std::vector<uint64_t>> members_;  // one entry per class: indices; without classes all are of one
};

}  // namespace penstock
