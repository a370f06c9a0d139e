// Digest: one number for all bytes that an epoch delivered, whichever rank delivered which part.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "loader/batch/loader.h"

namespace penstock {

/// The sum modulo 2^128 of XXH3-128(position, id, label, weight, pixels) over all rows that have a sample. Where a mix
/// was asked for, the second label and the mix weight are hashed before the pixels, and columns of makers after them.
/// Because the position is part of
/// what is hashed, the sum depends on the order of the samples, and yet the digests of several ranks can simply be
/// added. Padding rows do not count, because their number depends on the world size. Numbers are hashed in the byte
/// order of the machine, which is little-endian.
///
/// Thread-safety: a value; add() is for one thread at a time.
class Digest {
 public:
  Digest() = default;
  Digest(uint64_t low, uint64_t high) : low_(low), high_(high) {}

  void add(const Batch& batch);
  struct Mixed {
    int64_t second_label;
    float weight;
  };
  /// Adds one row. `mixed` is given for every row of a batch whose rows may be mixed. `made`: what columns of makers
  /// have for the row.
  void add(uint64_t position, uint64_t id, int64_t label, float weight, std::span<const std::byte> pixels,
           const std::optional<Mixed>& mixed = std::nullopt, std::span<const std::span<const std::byte>> made = {});
  void add(const Digest& other);
  std::string hex() const;  ///< 32 hexadecimal digits.
  bool operator==(const Digest&) const = default;

 private:
  uint64_t low_ = 0, high_ = 0;
};

}  // namespace penstock
