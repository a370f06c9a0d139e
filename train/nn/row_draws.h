// RowDraws: random masks that belong to the rows of a batch, whoever computes them.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>

namespace penstock {

/// Which rows of an epoch a forward has: row i of its tensors is that of the position first_position + i.
struct BatchRows {
  uint64_t seed = 0;
  int64_t epoch = 0;
  uint64_t first_position = 0;
};

/// While this lives, layers that run on this thread drop what belongs to `rows`. Without rows they drop nothing.
class RowScope {
 public:
  explicit RowScope(const std::optional<BatchRows>& rows);
  ~RowScope();
  RowScope(const RowScope&) = delete;
  RowScope& operator=(const RowScope&) = delete;
  static bool has_rows();          ///< Whether this thread has rows now.
  static const BatchRows* rows();  ///< The same rows; null: none.

 private:
  std::optional<BatchRows> rows_;
  const BatchRows* before_;
};

namespace detail {

/// What `x` (N x ...) is multiplied by so that a share `rate` of it is dropped: 0, or 1 / (1 - rate). One number per
/// row (N x 1 x ...), or with `per_element` of the sizes of x; in the dtype of x, on its device.
///
/// Determinism: each number is a function of (seed, epoch, position of the row, layer, element) and of nothing else,
/// so that it is the same in every mode, at every rank, in every micro-batch, in a second forward of the same rows
/// and after a restart. It is a block of Philox (core/rng.h) for each row, whose counter no transform has, and for an
/// element two of its words that are mixed with the number of the element by Wellons' hash "lowbias32" (2018), one of
/// them between its two multiplications; the last shift, which changes low bits alone, is left out.
///
/// Cost: ten passes over whole numbers of 32 bits per element of x. Requires RowScope::has_rows().
torch::Tensor keep_factors(const torch::Tensor& x, double rate, uint32_t layer, bool per_element);

}  // namespace detail
}  // namespace penstock
