// Mender: what becomes of rows whose samples are corrupt.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/error.h"
#include "loader/rows/corrupt_rows.h"
#include "loader/rows/loader_options.h"
#include "loader/rows/sample_order.h"
#include "loader/rows/substitutes.h"

namespace penstock::detail {

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
