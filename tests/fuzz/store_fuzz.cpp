// Stored coefficients from an untrusted source. The first byte says what the rest is: a sample, which is read with an
// intact codebook; a codebook, with which an intact sample is read; or both.
#include <array>

#include "loader/jpeg/base/header.h"
#include "loader/jpeg/store/codebook.h"
#include "loader/jpeg/store/coefficient_sample.h"
#include "loader/jpeg/store/store_source.h"
#include "loader/pack/encoder.h"
#include "tests/fuzz/fuzz_pictures.h"

namespace penstock {
namespace {

using Bytes = std::span<const uint8_t>;

/// What a kernel decodes from one group: FNV-1a of the coefficients and row counts, or 0 if the group is corrupt.
uint64_t digest_of_group(detail::StoreSource& source, int row, int begin, int end, int block_count) {
  alignas(64) static std::array<int16_t, detail::kMaxGroupBlocks * detail::kBlockSize> blocks;
  static std::array<uint8_t, detail::kMaxGroupBlocks> rows;
  try {
    source.read(row, begin, end, {blocks.data(), rows.data()});
  } catch (const Error&) {
    return 0;
  }
  uint64_t hash = 0xCBF29CE484222325;
  for (int i = 0; i < block_count * detail::kBlockSize; ++i)
    hash = (hash ^ static_cast<uint16_t>(blocks[i])) * 0x100000001B3;
  for (int i = 0; i < block_count; ++i) hash = (hash ^ rows[i]) * 0x100000001B3;
  return hash;
}

/// All kernels decode the same, and refuse the same.
void compare_kernels(const detail::JpegGeometry& geometry, Bytes store, const detail::Codebook& codebook) {
  std::vector<detail::StoreSource> sources;
  for (const auto& named : detail::store_kernels()) sources.emplace_back(store, geometry, codebook, named.kernel);
  for (int row = 0; row < geometry.mcu_rows; ++row) {
    for (int begin = 0; begin < geometry.mcu_columns; begin += detail::kGroupMcus) {
      const int end = std::min(begin + detail::kGroupMcus, geometry.mcu_columns);
      // Decoding also begins in the middle, because the blocks before that are skipped in another way.
      for (const int from : {begin, (begin + end) / 2}) {
        const int block_count = (end - from) * geometry.mcu_blocks;
        const uint64_t first = digest_of_group(sources.front(), row, from, end, block_count);
        for (auto& source : sources)
          if (digest_of_group(source, row, from, end, block_count) != first) std::abort();
      }
    }
  }
}

void decode(Bytes bytes, const detail::Codebook& codebook) {
  const auto parts = detail::CoefficientSample::parse(bytes);
  const auto header = detail::parse_jpeg_header(parts.header);
  if (int64_t{header.height} * header.width > fuzzing::kMaxPixelCount) return;
  compare_kernels(detail::JpegGeometry(header), parts.store, codebook);
  const Sample sample{.extent = detail::jpeg_extent(header),
                      .encoding = Encoding::kCoefficients,
                      .bytes = bytes,
                      .codebook = &codebook};
  for (const auto path : {DecodePath::kIndex, DecodePath::kRegion}) {
    try {
      fuzzing::decode(sample, path);
    } catch (const Error&) {
    }
  }
  detail::rebuild_jpeg(parts, codebook);
}

/// `bytes`, repeated to the size of a codebook, with the checksum that a codebook needs.
detail::Codebook codebook_of(Bytes bytes) {
  std::vector<uint8_t> whole(detail::Codebook::kByteCount);
  for (size_t i = 0; i < whole.size() && !bytes.empty(); ++i) whole[i] = bytes[i % bytes.size()];
  fuzzing::fix_codebook_checksum(whole);
  return detail::Codebook::parse(whole);
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  static const auto codebook = fuzzing::small_codebook();
  static const auto whole = [] {
    DecodeScratch scratch;
    return detail::Encoder({}, codebook)
        .encode(0, {fuzzing::small_jpeg(), Encoding::kJpeg, fuzzing::kSmallExtent}, scratch);
  }();
  if (size < 3) return 0;
  const Bytes rest(data + 1, size - 1);
  try {
    if (data[0] % 3 == 0) {
      decode(rest, *codebook);
    } else if (data[0] % 3 == 1) {
      decode(whole.bytes, codebook_of(rest));
    } else {
      const size_t book_bytes = std::min<size_t>(rest[0] | rest[1] << 8, rest.size() - 2);
      decode(rest.subspan(2 + book_bytes), codebook_of(rest.subspan(2, book_bytes)));
    }
  } catch (const Error&) {
  }
  return 0;
}
