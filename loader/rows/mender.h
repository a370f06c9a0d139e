// Mender: what becomes of rows whose samples are corrupt.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "core/error.h"
#include "loader/rows/corrupt_rows.h"
#include "loader/rows/loader_options.h"
#include "loader/rows/sample_order.h"

namespace penstock::detail {

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

/// A sample that was found for a row.
struct FoundRow {
  uint64_t index = 0;  // in the split
  Sample sample;
  uint32_t copy = 0;  // SampleOrder::Place
  bool is_corrupt = false;
  bool is_left_out = false;

  void place_at(const SampleOrder::Place& place) { index = place.index, copy = place.copy; }
};

/// A row of a batch, its partner (without a mix, the row itself), and their positions in the epoch.
struct BrokenRow {
  int64_t epoch, batch, number;
  FoundRow &row, &partner;
  uint64_t position, partner_position;

  bool is_mixed() const { return &partner != &row; }
};

/// Is asked only where a sample is corrupt. Thread-safety: const members may be called by several threads.
class Mender {
 public:
  /// The arguments outlive it.
  Mender(const Dataset& dataset, const SampleOrder& samples, const LoaderOptions& options)
      : dataset_(dataset),
        policy_(options.on_corrupt),
        substitutes_(dataset, samples, options.seed),
        rows_(std::make_unique<CorruptRows>(options.quarantine)) {}

  bool is_forgiven(const Error& error) const {
    return policy_ != OnCorrupt::kFail && error.kind() == ErrorKind::kCorrupt;
  }
  /// Marks the row as corrupt, and notes its sample.
  void mark(FoundRow& row, const Error& error) const;

  /// `make` makes the row and throws where it cannot; `make_alone` makes one sample, of the row or of its partner, for
  /// nothing. `error`: what making it has thrown; null where a sample is marked already. Puts others in the places of
  /// corrupt samples until the row can be made; returns whether it was. Otherwise both are again what they were, and
  /// the row is to be masked. Throws what is not forgiven.
  bool mend(const BrokenRow& broken, const Error* error, const std::function<void()>& make,
            const std::function<void(const FoundRow&)>& make_alone) const;

  CorruptRows& rows() const { return *rows_; }

 private:
  void blame(const BrokenRow& broken, const Error& error, const std::function<void(const FoundRow&)>& make_alone) const;
  bool replace(int64_t epoch, uint64_t position, int& tries, FoundRow& row) const;

  const Dataset& dataset_;
  OnCorrupt policy_;
  Substitutes substitutes_;
  std::unique_ptr<CorruptRows> rows_;
};

}  // namespace penstock::detail
