// XXH3-128 by xxHash; SHA-256 as FIPS 180-4, section 6.2, says it, and by the instructions that some processors have.
#include "loader/files/checksum.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>

#include "core/bytes.h"
#endif

namespace penstock::detail {
namespace {

constexpr size_t kBlockBytes = 64;

using State = std::array<uint32_t, 8>;

alignas(16) constexpr std::array<uint32_t, 64> kRoundConstants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

void add_block(State& state, const uint8_t* block) {
  std::array<uint32_t, 64> w{};
  for (size_t t = 0; t < 16; ++t) w[t] = big_endian(block + 4 * t);
  for (size_t t = 16; t < 64; ++t) {
    const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
    const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t t = 0; t < 64; ++t) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t first = h + s1 + ((e & f) ^ (~e & g)) + kRoundConstants[t] + w[t];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t second = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const State added{a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

#ifdef __x86_64__

bool has_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & 1U << 29) != 0 && __builtin_cpu_supports("sse4.1") != 0;
}

/// As add_block() for each block. The instructions (Intel, "New Instructions Supporting the Secure Hash Algorithm",
/// 2013) take four rounds' words at a time, and the state as the words a b e f and c d g h.
__attribute__((target("sha,sse4.1"))) void add_blocks_by_instructions(State& state, const uint8_t* block,
                                                                      size_t count) {
  const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  auto* const halves = reinterpret_cast<__m128i*>(state.data());
  const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(halves), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(halves + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; count > 0; --count, block += kBlockBytes) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i)
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block) + i), order);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      if (i >= 4) {
        const __m128i last = w[(i + 3) % 4];
        const __m128i sums =
            _mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]), _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
        w[i % 4] = _mm_sha256msg2_epu32(sums, last);
      }
      const auto* const constants = reinterpret_cast<const __m128i*>(kRoundConstants.data()) + i;
      const __m128i words = _mm_add_epi32(w[i % 4], _mm_load_si128(constants));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, words);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(words, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(halves, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(halves + 1, _mm_alignr_epi8(dchg, feba, 8));
}

#else

bool has_instructions() { return false; }
void add_blocks_by_instructions(State&, const uint8_t*, size_t) {}

#endif

std::string hex_of_xxh3(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  return hex_of(canonical.digest);
}

}  // namespace

std::string hex_of(std::span<const uint8_t> bytes) {
  std::string hex;
  for (const uint8_t byte : bytes) hex += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return hex;
}

std::string xxh3_hex(std::span<const uint8_t> bytes) { return hex_of_xxh3(XXH3_128bits(bytes.data(), bytes.size())); }

Sha256Sum::Sha256Sum(bool may_use_instructions)
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {
  static const bool has_some = has_instructions();
  uses_instructions_ = may_use_instructions && has_some;
}

void Sha256Sum::add_blocks(const uint8_t* bytes, size_t count) {
  if (uses_instructions_) return add_blocks_by_instructions(state_, bytes, count);
  for (size_t i = 0; i < count; ++i) add_block(state_, bytes + i * kBlockBytes);
}

void Sha256Sum::add(std::span<const uint8_t> bytes) {
  const size_t rest = byte_count_ % kBlockBytes;
  byte_count_ += bytes.size();
  if (rest > 0) {
    const size_t count = std::min(bytes.size(), kBlockBytes - rest);
    std::copy_n(bytes.begin(), count, rest_.begin() + static_cast<ptrdiff_t>(rest));
    bytes = bytes.subspan(count);
    if (rest + count < kBlockBytes) return;
    add_blocks(rest_.data(), 1);
  }
  add_blocks(bytes.data(), bytes.size() / kBlockBytes);
  const auto left = bytes.last(bytes.size() % kBlockBytes);
  std::copy(left.begin(), left.end(), rest_.begin());
}

Sha256 Sha256Sum::finish() {
  const uint64_t bit_count = byte_count_ * 8;
  std::array<uint8_t, 2 * kBlockBytes> padding{0x80};  // to 8 bytes before the end of a block
  const size_t rest = byte_count_ % kBlockBytes, count = (rest < kBlockBytes - 8 ? 1 : 2) * kBlockBytes - rest;
  for (size_t i = 0; i < 8; ++i) padding[count - 1 - i] = static_cast<uint8_t>(bit_count >> 8 * i);
  add({padding.data(), count});
  Sha256 hash{};
  for (size_t i = 0; i < hash.size(); ++i) hash[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return hash;
}

Sha256 sha256(std::string_view text) {
  Sha256Sum sum;
  sum.add(as_bytes(text));
  return sum.finish();
}

FileSum::FileSum(bool is_sha256)
    : is_sha256_(is_sha256), xxh3_(XXH3_createState(), [](XXH3_state_t* state) { XXH3_freeState(state); }) {
  XXH3_128bits_reset(xxh3_.get());
}

FileSum::~FileSum() = default;

void FileSum::add(std::span<const uint8_t> bytes) {
  if (is_sha256_) return sha256_.add(bytes);
  XXH3_128bits_update(xxh3_.get(), bytes.data(), bytes.size());
}

std::string FileSum::finish() {
  return is_sha256_ ? hex_of(sha256_.finish()) : hex_of_xxh3(XXH3_128bits_digest(xxh3_.get()));
}

FileFacts facts_of(std::span<const uint8_t> bytes) {
  constexpr size_t kPieceBytes = 256 << 10;  // fits the second cache of a core, from which the second sum reads it
  FileSum xxh3(false), sha256(true);
  for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
    const auto piece = bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at));
    xxh3.add(piece);
    sha256.add(piece);
  }
  return {bytes.size(), xxh3.finish(), sha256.finish()};
}

std::string sum_of(std::span<const uint8_t> bytes, const FileFacts& facts) {
  FileSum sum(!facts.sha256.empty());
  sum.add(bytes);
  return sum.finish();
}

}  // namespace penstock::detail
