// Checksums of a whole file, as the manifest states them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "loader/files/files.h"

struct XXH3_state_s;

namespace penstock::detail {

/// XXH3-128 (seed 0) of the bytes as 32 lower-case hex digits, most significant first: what `xxh128sum` prints.
std::string xxh3_hex(std::span<const uint8_t> bytes);

using Sha256 = std::array<uint8_t, 32>;

/// SHA-256 (FIPS 180-4) of bytes that come in pieces: about 1.5 GB/s where the processor has instructions for it, 250
/// MB/s elsewhere.
class Sha256Sum {
 public:
  /// Without `may_use_instructions` it computes as on a processor that has none, which tests compare.
  explicit Sha256Sum(bool may_use_instructions = true);
  void add(std::span<const uint8_t> bytes);
  Sha256 finish();  ///< Nothing can be added after it.

 private:
  void add_blocks(const uint8_t* bytes, size_t count);

  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> rest_{};  // of bytes that do not fill a block yet
  uint64_t byte_count_ = 0;
  bool uses_instructions_;
};

Sha256 sha256(std::string_view text);

/// As 64 lower-case hex digits: what `sha256sum` prints.
std::string hex_of(std::span<const uint8_t> bytes);

/// One of the two sums, of bytes that come in pieces. XXH3 finds every accident, but bytes with a given XXH3 can be
/// made on purpose; nobody knows how to make some with a given SHA-256.
class FileSum {
 public:
  explicit FileSum(bool is_sha256);
  ~FileSum();
  void add(std::span<const uint8_t> bytes);
  std::string finish();  ///< In hex. Nothing can be added after it.

 private:
  bool is_sha256_;
  Sha256Sum sha256_;
  std::unique_ptr<XXH3_state_s, void (*)(XXH3_state_s*)> xxh3_;
};

/// The size and both sums of a whole file.
FileFacts facts_of(std::span<const uint8_t> bytes);
/// The sum of a whole file of the kind that facts.sum() is.
std::string sum_of(std::span<const uint8_t> bytes, const FileFacts& facts);

}  // namespace penstock::detail
