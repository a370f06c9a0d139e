// ShardWriter: writes the pictures first, then the columns, and the header last.
#include "loader/shards/shard_writer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/atomic_file.h"
#include "core/bytes.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/files/safetensors.h"
#include "loader/shards/field_table.h"

namespace penstock {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr uint64_t kColumnAlignment = 64;  // alignment of the columns: a cache line

}  // namespace

namespace detail {

/// Byte strings of any length, one after the other.
struct RaggedColumn {
  std::vector<uint64_t> offsets{0};
  std::vector<uint8_t> bytes;
  void add(std::span<const uint8_t> row) {
    bytes.insert(bytes.end(), row.begin(), row.end());
    offsets.push_back(bytes.size());
  }
};

}  // namespace detail

struct ShardWriter::State {
  std::filesystem::path path;
  std::optional<Extent> raw_extent;
  std::vector<uint8_t> codebook;
  AtomicFile file;
  std::vector<uint64_t> ids, offsets{0};
  std::vector<int64_t> labels;
  std::vector<uint32_t> checksums;
  std::vector<uint16_t> extents;
  std::vector<uint8_t> encodings, orientations;
  detail::RaggedColumn indexes, paths;
  size_t header_bytes;
  detail::FieldColumns fields;
  PixelType pixels;

  State(const std::filesystem::path& shard, std::optional<Extent> extent, std::vector<uint8_t> book,
        std::vector<FieldType> types, PixelType of_pixels)
      : path(shard),
        raw_extent(extent),
        codebook(std::move(book)),
        file(shard),
        header_bytes(shard_header_bytes(types.size())),
        fields(shard.parent_path(), std::move(types)),
        pixels(of_pixels) {}
  void check(const Sample& sample) const;
  std::vector<TensorView> columns() const;
};

size_t shard_header_bytes(size_t field_count) {
  return (kShardHeaderBytes + detail::field_header_bytes(field_count) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

ShardWriter::ShardWriter(const std::filesystem::path& path, std::optional<Extent> raw_extent,
                         std::vector<uint8_t> codebook, std::vector<FieldType> fields, PixelType pixels)
    : state_(std::make_unique<State>(path, raw_extent, std::move(codebook), std::move(fields), pixels)) {
  state_->file.write(std::string(state_->header_bytes, ' '));
}

ShardWriter::~ShardWriter() = default;

void ShardWriter::State::check(const Sample& sample) const {
  const int height = sample.extent.height, width = sample.extent.width, channels = sample.extent.channels;
  const auto fact = [&] {
    return concat(path.string(), ": id ", sample.id, " is ", height, " x ", width, " x ", channels, " in encoding ",
                  static_cast<int>(sample.encoding));
  };
  if (raw_extent && (sample.encoding != raw_encoding(pixels) || sample.extent != *raw_extent))
    throw bug_error(concat(fact(), "; expected raw pictures of one size and ", pixel_type_name(pixels),
                           ", as the source promised"));
  constexpr int kMax = std::numeric_limits<uint16_t>::max();
  if (height < 1 || height > kMax || width < 1 || width > kMax)
    throw bug_error(concat(fact(), "; expected sides from 1 to ", kMax));
  if (sample.encoding == Encoding::kCoefficients && codebook.empty())
    throw bug_error(fact() + "; expected a writer with a codebook");
}

void ShardWriter::add(const Sample& sample, std::span<const FieldValue> fields) {
  auto& state = *state_;
  state.check(sample);
  state.file.write(sample.bytes);
  state.ids.push_back(sample.id);
  state.labels.push_back(sample.label);
  state.offsets.push_back(state.offsets.back() + sample.bytes.size());
  state.checksums.push_back(sample_checksum(sample));
  for (const int side : {sample.extent.height, sample.extent.width, sample.extent.channels})
    state.extents.push_back(static_cast<uint16_t>(side));
  state.encodings.push_back(static_cast<uint8_t>(sample.encoding));
  state.orientations.push_back(sample.orientation);
  state.indexes.add(sample.seek_index);
  state.paths.add(as_bytes(sample.path));
  state.fields.add(sample.id, fields);
}

/// Columns of wide elements come first, so that each column is aligned to its element. Columns that would say nothing
/// are left out.
std::vector<TensorView> ShardWriter::State::columns() const {
  const uint64_t count = ids.size();
  const bool has_indexes = !indexes.bytes.empty(), has_paths = !paths.bytes.empty();
  const bool has_orientations = std::any_of(orientations.begin(), orientations.end(), [](int o) { return o != 1; });
  std::vector<TensorView> tensors{{"id", "U64", {count}, as_bytes(ids)}, {"label", "I64", {count}, as_bytes(labels)}};
  if (!raw_extent) tensors.push_back({"offset", "U64", {count + 1}, as_bytes(offsets)});
  if (has_indexes) tensors.push_back({"index_offset", "U64", {count + 1}, as_bytes(indexes.offsets)});
  if (has_paths) tensors.push_back({"path_offset", "U64", {count + 1}, as_bytes(paths.offsets)});
  tensors.push_back({"crc32c", "U32", {count}, as_bytes(checksums)});
  tensors.push_back({"extent", "U16", {count, 3}, as_bytes(extents)});
  tensors.push_back({"encoding", "U8", {count}, as_bytes(encodings)});
  if (has_orientations) tensors.push_back({"orientation", "U8", {count}, as_bytes(orientations)});
  const auto coefficients = static_cast<uint8_t>(Encoding::kCoefficients);
  const bool needs_codebook = std::find(encodings.begin(), encodings.end(), coefficients) != encodings.end();
  if (needs_codebook) tensors.push_back({"codebook", "U8", {codebook.size()}, codebook});
  if (has_indexes) tensors.push_back({"index", "U8", {indexes.bytes.size()}, indexes.bytes});
  if (has_paths) tensors.push_back({"path", "U8", {paths.bytes.size()}, paths.bytes});
  fields.append_tensors(count, tensors);
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto& a, const auto& b) { return dtype_bytes(a.dtype) > dtype_bytes(b.dtype); });
  return tensors;
}

uint64_t ShardWriter::finish() {
  auto& state = *state_;
  const auto side = [](int value) { return static_cast<uint64_t>(value); };
  std::vector<TensorView> tensors;
  if (const auto& extent = state.raw_extent) {
    const std::string dtype(dtype_name(dtype_of(state.pixels)));
    tensors.push_back(
        {"images", dtype, {state.ids.size(), side(extent->height), side(extent->width), side(extent->channels)}, {}});
  } else {
    tensors.push_back({"bytes", "U8", {state.offsets.back()}, {}});
  }
  const std::vector<uint8_t> padding((kColumnAlignment - state.offsets.back() % kColumnAlignment) % kColumnAlignment);
  if (!padding.empty()) tensors.push_back({"padding", "U8", {padding.size()}, padding});
  for (auto& column : state.columns()) tensors.push_back(std::move(column));
  // Pictures have an empty view: they are written.
  for (const auto& tensor : tensors) state.fields.write(tensor, state.file);

  const std::string header = safetensors_header(tensors, {{kShardVersionKey, kShardVersion}}, state.header_bytes);
  if (header.size() != state.header_bytes)
    throw bug_error(
        concat(state.path.string(), ": header of ", header.size(), " bytes; expected ", state.header_bytes));
  state.file.overwrite(0, header);
  const uint64_t byte_count = state.file.byte_count();
  state.file.commit();
  return byte_count;
}

}  // namespace penstock
