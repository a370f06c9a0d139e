// RowDraws: keys of rows, and what is mixed of them.
#include "train/nn/row_draws.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/rng.h"

namespace penstock {
namespace {

using torch::Tensor;

thread_local const BatchRows* t_rows = nullptr;

/// Two words for each of `count` rows, as i32 count x 2. Transforms have smaller numbers in the first word of the
/// counter.
Tensor keys_of(const BatchRows& rows, int64_t count, uint32_t layer) {
  constexpr uint32_t kLayers = 0x8000'0000;
  auto keys = torch::empty({count, 2}, torch::kInt32);
  auto* words = keys.mutable_data_ptr<int32_t>();
  for (int64_t row = 0; row < count; ++row) {
    const uint64_t position = rows.first_position + static_cast<uint64_t>(row);
    const auto block = philox4x32({kLayers | layer, static_cast<uint32_t>(rows.epoch), static_cast<uint32_t>(position),
                                   static_cast<uint32_t>(position >> 32)},
                                  {static_cast<uint32_t>(rows.seed), static_cast<uint32_t>(rows.seed >> 32)});
    for (size_t word : {0, 1}) words[2 * row + static_cast<int64_t>(word)] = static_cast<int32_t>(block[word]);
  }
  return keys;
}

/// h ^= h >> bits, without the sign.
void shift_in(Tensor& h, int bits) {
  h.bitwise_xor_(at::bitwise_right_shift(h, bits).bitwise_and_((int64_t{1} << (32 - bits)) - 1));
}

/// i32 rows x `elements`, evenly distributed.
Tensor hashes(const Tensor& keys, int64_t elements) {
  constexpr auto kFirst = static_cast<int32_t>(0x7feb352d), kSecond = static_cast<int32_t>(0x846ca68b);
  auto h = torch::arange(elements, keys.options()).unsqueeze(0) + keys.narrow(1, 0, 1);
  shift_in(h, 16);
  h.mul_(kFirst).bitwise_xor_(keys.narrow(1, 1, 1));
  shift_in(h, 15);
  return h.mul_(kSecond);
}

}  // namespace

RowScope::RowScope(const std::optional<BatchRows>& rows)
    : rows_(rows), before_(std::exchange(t_rows, rows_ ? &*rows_ : nullptr)) {}
RowScope::~RowScope() { t_rows = before_; }
bool RowScope::has_rows() { return t_rows != nullptr; }
const BatchRows* RowScope::rows() { return t_rows; }

Tensor detail::keep_factors(const Tensor& x, double rate, uint32_t layer, bool per_element) {
  const at::NoGradGuard no_grad;
  const int64_t rows = x.size(0);
  const auto keys = keys_of(*t_rows, rows, layer).to(x.device());
  const Tensor numbers = per_element ? hashes(keys, x.numel() / std::max<int64_t>(rows, 1)) : keys.narrow(1, 0, 1);
  const int64_t least = std::min<int64_t>(std::llround(std::ldexp(rate, 32)) - (int64_t{1} << 31), INT32_MAX);
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  sizes[0] = rows;
  return numbers.ge(least).to(x.scalar_type()).div_(1 - rate).view(per_element ? x.sizes() : at::IntArrayRef(sizes));
}

}  // namespace penstock
