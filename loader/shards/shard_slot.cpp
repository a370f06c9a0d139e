// ShardSlot: opening, what the manifest says of a shard, and one bit for every checksum that has passed.
#include "loader/shards/shard_slot.h"

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

std::string expected_extent(const Manifest& manifest) {
  if (!manifest.extent && is_raster(manifest.pixels, manifest.channels))
    return pixels_text(manifest.pixels, manifest.channels);
  if (!manifest.extent) return concat("at most ", manifest.channels, " channels");
  const auto [height, width, channels] = *manifest.extent;
  return concat(height, " x ", width, " x ", channels);
}

/// Compares sizes, labels and extents in the shard with what the manifest says.
void check_shard(const ShardReader& shard, const Manifest& manifest, const Manifest::Shard& entry) {
  const auto check_number = [&](uint64_t found, uint64_t expected, const char* what) {
    if (found == expected) return;
    throw corrupt_error(
        concat(shard.path().string(), ": ", found, " ", what, "; expected ", expected, ", as the manifest says"));
  };
  check_number(shard.size(), entry.sample_count, "samples");
  check_number(shard.byte_count(), entry.byte_count, "bytes");
  if (entry.first_id && shard.size() > 0 && shard.at(0).id != *entry.first_id) {
    throw corrupt_error(concat(shard.where(0), ": id is ", shard.at(0).id, "; expected ", *entry.first_id,
                               ", as the manifest says of the first sample in this file"));
  }
  for (size_t number = 0; number < manifest.fields.size(); ++number) {
    const auto& type = manifest.fields[number];
    if (const uint64_t found = shard.most_entries(number); found > type.most)
      throw corrupt_error(concat(shard.path().string(), ": field ", in_quotes(type.name), ": a sample has ", found,
                                 " entries; expected at most ", type.most, ", as the manifest says"));
  }
  for (size_t row = 0; row < shard.size(); ++row) {
    const Sample sample = shard.at(row);
    if (!manifest.has_label(sample.label))
      throw corrupt_error(concat(shard.where(row), ": label is ", sample.label, "; expected ", manifest.label_range()));
    const bool has_own_channels = is_raster(manifest.pixels, manifest.channels);
    const bool fits = manifest.extent    ? sample.extent == *manifest.extent
                      : has_own_channels ? sample.extent.channels == manifest.channels
                                         : sample.extent.channels <= manifest.channels;
    if (pixels_of(sample.encoding) != manifest.pixels)
      throw corrupt_error(concat(shard.where(row), ": pixels are ", pixel_type_name(pixels_of(sample.encoding)),
                                 "; expected ", pixel_type_name(manifest.pixels), ", as the manifest says"));
    if (!fits) {
      throw corrupt_error(concat(shard.where(row), ": extent is ", sample.extent.height, " x ", sample.extent.width,
                                 " x ", sample.extent.channels, "; expected ", expected_extent(manifest),
                                 ", as the manifest says"));
    }
  }
}

}  // namespace

OpenShard::OpenShard(const ExpectedFile& file, const Manifest& manifest, const Manifest::Shard& entry)
    : OpenShard(ShardReader(file.path, manifest.fields, file.facts), manifest, entry) {}
OpenShard::OpenShard(std::unique_ptr<const FileMap> map, const Manifest& manifest, const Manifest::Shard& entry)
    : OpenShard(ShardReader(std::move(map), manifest.fields), manifest, entry) {}
OpenShard::OpenShard(ShardReader reader, const Manifest& manifest, const Manifest::Shard& entry)
    : reader_(std::move(reader)), checked_(reader_.size() * (1 + manifest.fields.size()) / 64 + 1) {
  const FileHold held = reader_.hold();
  check_shard(reader_, manifest, entry);
}

/// Relaxed order is enough, because the bytes never change: at worst two threads check the same sample.
template <class Check>
void OpenShard::check_bit(uint64_t number, const Check& check) const {
  auto& word = checked_[number / 64];
  const uint64_t bit = uint64_t{1} << (number % 64);
  if ((word.load(std::memory_order_relaxed) & bit) != 0) return;
  check();
  word.fetch_or(bit, std::memory_order_relaxed);
}

void OpenShard::check_once(size_t row) const {
  check_bit(row, [&] { reader_.check_crc(row); });
}

void OpenShard::check_field_once(size_t row, size_t number) const {
  check_bit(reader_.size() * (1 + number) + row, [&] { reader_.check_field_crc(row, number); });
}

const OpenShard& ShardSlot::get() const {
  if (const auto* shard = if_open()) return *shard;
  const MutexLock lock(mutex_);
  if (const auto* shard = if_open()) return *shard;
  if (corrupt_) std::rethrow_exception(corrupt_);
  const auto& entry = split_->manifest.shards[number_];
  try {
    const auto* shard = new OpenShard(expected(), split_->manifest, entry);
    shard_.store(shard, std::memory_order_release);
    return *shard;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCorrupt) corrupt_ = std::current_exception();
    throw;
  }
}

}  // namespace penstock::detail
