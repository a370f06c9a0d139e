// ShardWriter: pictures first, then the columns, the header last.
#include "loader/shard_writer.h"

#include <limits>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "loader/detail/atomic_file.h"
#include "loader/safetensors.h"

namespace penstock {
namespace {

constexpr uint64_t kAlignment = 64;  // of the columns: a cache line

template <class Element>
std::span<const uint8_t> as_bytes(const std::vector<Element>& column) {
  return {reinterpret_cast<const uint8_t*>(column.data()), column.size() * sizeof(Element)};
}

}  // namespace

struct ShardWriter::State {
  std::filesystem::path path;
  std::optional<Extent> raw_extent;
  detail::AtomicFile file;
  std::vector<uint64_t> ids, offsets{0};
  std::vector<int64_t> labels;
  std::vector<uint32_t> checksums;
  std::vector<uint16_t> extents;
  std::vector<uint8_t> encodings;

  State(const std::filesystem::path& shard, std::optional<Extent> extent)
      : path(shard), raw_extent(extent), file(shard) {}
  std::vector<TensorView> columns() const;
};

ShardWriter::ShardWriter(const std::filesystem::path& path, std::optional<Extent> raw_extent)
    : state_(std::make_unique<State>(path, raw_extent)) {
  state_->file.write(std::string(kShardHeaderBytes, ' '));
}

ShardWriter::~ShardWriter() = default;

void ShardWriter::add(uint64_t id, int64_t label, const Extent& extent, Encoding encoding,
                      std::span<const uint8_t> bytes) {
  auto& state = *state_;
  const auto fact = [&] {
    return concat(state.path.string(), ": id ", id, " is ", extent.height, " x ", extent.width, " x ", extent.channels,
                  " in encoding ", static_cast<int>(encoding));
  };
  if (state.raw_extent && (encoding != Encoding::kRaw || extent != *state.raw_extent))
    throw bug_error(fact() + "; expected raw pictures of one size, as the source promised");
  constexpr int kMax = std::numeric_limits<uint16_t>::max();
  if (extent.height < 1 || extent.height > kMax || extent.width < 1 || extent.width > kMax)
    throw bug_error(concat(fact(), "; expected sides from 1 to ", kMax));
  state.file.write(bytes);
  state.ids.push_back(id);
  state.labels.push_back(label);
  state.offsets.push_back(state.offsets.back() + bytes.size());
  state.checksums.push_back(
      sample_checksum({.id = id, .label = label, .extent = extent, .encoding = encoding, .bytes = bytes}));
  for (const int side : {extent.height, extent.width, extent.channels})
    state.extents.push_back(static_cast<uint16_t>(side));
  state.encodings.push_back(static_cast<uint8_t>(encoding));
}

/// Wide elements first, so that each column is aligned to its element.
std::vector<TensorView> ShardWriter::State::columns() const {
  const uint64_t count = ids.size();
  std::vector<TensorView> tensors{{"id", "U64", {count}, as_bytes(ids)}, {"label", "I64", {count}, as_bytes(labels)}};
  if (!raw_extent) tensors.push_back({"offset", "U64", {count + 1}, as_bytes(offsets)});
  tensors.push_back({"crc32c", "U32", {count}, as_bytes(checksums)});
  tensors.push_back({"extent", "U16", {count, 3}, as_bytes(extents)});
  tensors.push_back({"encoding", "U8", {count}, as_bytes(encodings)});
  return tensors;
}

uint64_t ShardWriter::finish() {
  auto& state = *state_;
  const auto side = [](int value) { return static_cast<uint64_t>(value); };
  std::vector<TensorView> tensors;
  if (const auto& extent = state.raw_extent) {
    tensors.push_back(
        {"images", "U8", {state.ids.size(), side(extent->height), side(extent->width), side(extent->channels)}, {}});
  } else {
    tensors.push_back({"bytes", "U8", {state.offsets.back()}, {}});
  }
  const std::vector<uint8_t> padding((kAlignment - state.offsets.back() % kAlignment) % kAlignment);
  if (!padding.empty()) tensors.push_back({"padding", "U8", {padding.size()}, padding});
  for (auto& column : state.columns()) tensors.push_back(std::move(column));
  for (const auto& tensor : tensors) state.file.write(tensor.bytes);  // the pictures' view is empty: they are written

  const std::string header = safetensors_header(tensors, {{kShardVersionKey, kShardVersion}}, kShardHeaderBytes);
  if (header.size() != kShardHeaderBytes)
    throw bug_error(concat(state.path.string(), ": header of ", header.size(), " bytes; expected ", kShardHeaderBytes));
  state.file.overwrite(0, header);
  const uint64_t byte_count = state.file.byte_count();
  state.file.commit();
  return byte_count;
}

}  // namespace penstock
