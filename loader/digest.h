// Digest: one number for all bytes that an epoch delivered, whoever delivered which part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "loader/loader.h"

namespace penstock {

/// The sum modulo 2^128 over all rows with a sample of XXH3-128(position, id, label, weight, pixels), with the second
/// label and the mix weight before the pixels where a mix was asked for. The position is
/// part of what is hashed, so the sum says the same as hashing the rows in order, and ranks' parts just add up. Padding
/// rows, whose number depends on the world size, do not count. Numbers are hashed in the machine's byte order:
/// little-endian.
///
/// Thread-safety: a value.
class Digest {
 public:
  Digest() = default;
  Digest(uint64_t low, uint64_t high) : low_(low), high_(high) {}

  void add(const Batch& batch);
  struct Mixed {
    int64_t second_label;
    float weight;
  };
  /// One row; `mixed` in a batch whose rows may be mixed.
  void add(uint64_t position, uint64_t id, int64_t label, float weight, std::span<const std::byte> pixels,
           const std::optional<Mixed>& mixed = std::nullopt);
  void add(const Digest& other);
  std::string hex() const;  ///< 32 digits.
  bool operator==(const Digest&) const = default;

 private:
  uint64_t low_ = 0, high_ = 0;
};

}  // namespace penstock
