// Digest: the sum of one XXH3-128 hash per row.
#include "loader/batch/digest.h"

#define XXH_STATIC_LINKING_ONLY  // defines XXH3_state_t, so that a state can be on the stack
#include <xxhash.h>

#include <iomanip>
#include <sstream>
#include <vector>

namespace penstock {
namespace {

/// What is hashed before the pixels: 32 bytes without padding.
struct RowHead {
  uint64_t position, id;
  int64_t label;
  float weight;
  uint32_t zero;
};
static_assert(sizeof(RowHead) == 32);

/// What is hashed after RowHead in a batch whose rows may be mixed: 16 bytes without padding.
struct MixHead {
  int64_t second_label;
  float weight;
  uint32_t zero;
};
static_assert(sizeof(MixHead) == 16);

}  // namespace

void Digest::add(const Batch& batch) {
  if (batch.count() == 0) return;
  const auto row_of = [&batch](size_t column, size_t row) {
    const size_t row_bytes = batch.columns()[column].row_bytes();
    return batch.column(column).subspan(row * row_bytes, row_bytes);
  };
  const size_t known_count = batch.second_labels().empty() ? Column::kWeights + 1 : Column::kMixWeights + 1;
  std::vector<std::span<const std::byte>> made(batch.columns().size() - known_count);
  for (size_t row = 0; row < static_cast<size_t>(batch.count()); ++row) {
    for (size_t k = 0; k < made.size(); ++k) made[k] = row_of(known_count + k, row);
    std::optional<Mixed> mixed;
    if (!batch.second_labels().empty()) mixed = {batch.second_labels()[row], batch.mix_weights()[row]};
    add(batch.first_position() + row, batch.ids()[row], batch.labels()[row], batch.weights()[row],
        row_of(Column::kImages, row), mixed, made);
  }
}

void Digest::add(uint64_t position, uint64_t id, int64_t label, float weight, std::span<const std::byte> pixels,
                 const std::optional<Mixed>& mixed, std::span<const std::span<const std::byte>> made) {
  const RowHead head{position, id, label, weight, 0};
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, &head, sizeof head);
  if (mixed) {
    const MixHead mix{mixed->second_label, mixed->weight, 0};
    XXH3_128bits_update(&state, &mix, sizeof mix);
  }
  XXH3_128bits_update(&state, pixels.data(), pixels.size());
  for (const auto bytes : made) XXH3_128bits_update(&state, bytes.data(), bytes.size());
  const auto hash = XXH3_128bits_digest(&state);
  add(Digest(hash.low64, hash.high64));
}

void Digest::add(const Digest& other) {
  const uint64_t low = low_ + other.low_;
  high_ += other.high_ + (low < low_ ? 1 : 0);  // the carry
  low_ = low;
}

std::string Digest::hex() const {
  std::ostringstream out;
  out << std::hex << std::setfill('0') << std::setw(16) << high_ << std::setw(16) << low_;
  return out.str();
}

}  // namespace penstock
