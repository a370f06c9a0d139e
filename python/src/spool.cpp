// Spool: a picture and its fields one after the other.
#include "python/src/spool.h"

#include <utility>

#include "core/bytes.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/sources/picture_files.h"

namespace penstock::python {

Spool::Spool(const std::filesystem::path& folder, bool keeps_corrupt, AnnotatedOn annotated_on)
    : file_(folder, "samples before they are packed"), keeps_corrupt_(keeps_corrupt), annotated_on_(annotated_on) {}

void Spool::add_file(std::span<const uint8_t> bytes, int64_t label, const std::string& path,
                     const std::vector<FieldBytes>& fields) {
  if (!keeps_corrupt_) check_picture_format(bytes);
  add(bytes, {.label = label, .is_file = true, .extent = {}}, path, fields);
}

void Spool::add_pixels(std::span<const uint8_t> pixels, const Extent& extent, PixelType type, int64_t label,
                       const std::vector<FieldBytes>& fields) {
  constexpr int kMaxSide = 65535;  // a shard stores sides in 16 bits
  const bool is_picture = extent.height >= 1 && extent.height <= kMaxSide && extent.width >= 1 &&
                          extent.width <= kMaxSide && extent.channels >= 1 && extent.channels <= kMaxChannels;
  if (!is_picture)
    throw config_error(concat("pixels of ", extent.height, " x ", extent.width, " x ", extent.channels,
                              "; expected H x W x C with 1 to ", kMaxChannels, " channels and sides of 1 to ",
                              kMaxSide));
  if (type_.value_or(type) != type)
    throw config_error(concat("pixels of ", pixel_type_name(type), "; expected ", pixel_type_name(*type_),
                              ", as the pixels before have"));
  type_ = type;
  add(pixels, {.label = label, .extent = extent}, {}, fields);
}

void Spool::append(std::span<const uint8_t> bytes) {
  file_.append(bytes);
  checksum_ = crc32c(bytes, checksum_);
}

void Spool::add(std::span<const uint8_t> bytes, Entry entry, const std::string& path,
                const std::vector<FieldBytes>& fields) {
  entry.begin = file_.byte_count();
  entry.byte_count = bytes.size();
  entry.path_begin = paths_.size();
  entry.path_bytes = path.size();
  entry.turned_by = next_turned_by_;
  entry.annotated = next_annotated_;
  append(bytes);
  for (const FieldBytes field : fields) {
    append(field);
    field_bytes_.push_back(field.size());
  }
  const auto& [on, height, width] = entry.annotated;
  const std::string head =
      concat(entry.label, ' ', entry.extent.height, ' ', entry.extent.width, ' ', entry.extent.channels, ' ',
             static_cast<int>(entry.turned_by), ' ', static_cast<int>(on), ' ', height, ' ', width, ' ', path);
  checksum_ = crc32c(as_bytes(head), checksum_);
  paths_ += path;
  entries_.push_back(entry);
}

void Spool::set_classes(std::vector<std::string> names, const std::vector<int64_t>& numbers) {
  class_names_ = std::move(names);
  for (auto& entry : entries_) entry.label = numbers.at(static_cast<size_t>(entry.label));
}

SourceSample Spool::read(uint64_t index) const {
  const Entry& entry = entries_[index];
  SourceSample sample{.bytes = std::vector<uint8_t>(entry.byte_count),
                      .encoding = raw_encoding(raw_pixels()),
                      .extent = entry.extent,
                      .turned_by = entry.turned_by,
                      .annotated = entry.annotated};
  file_.read(entry.begin, sample.bytes);
  uint64_t at = entry.begin + entry.byte_count;
  for (size_t i = 0; i < fields_.size(); ++i) {
    auto& value = sample.fields.emplace_back(field_bytes_[index * fields_.size() + i]);
    file_.read(at, value);
    at += value.size();
  }
  try {
    for (size_t i = 0; i < fields_.size(); ++i)
      sample.fields[i] = detail::field_file_value(fields_[i], std::move(sample.fields[i]));
    if (!entry.is_file) return sample;
    SourceSample picture = picture_sample(std::move(sample.bytes));
    picture.fields = std::move(sample.fields);
    picture.annotated = sample.annotated;
    return picture;
  } catch (const Error& error) {
    throw Error(error.kind(), concat(where(index), ": ", error.what()));
  }
}

std::string Spool::fingerprint() const {
  return concat("items ", entries_.size(), ' ', file_.byte_count(), ' ', checksum_);
}

std::string Spool::where(uint64_t index) const {
  const std::string name = path(index);
  return concat("item ", index, name.empty() ? "" : concat(" (", name, ")"));
}

std::string Spool::path(uint64_t index) const {
  return paths_.substr(entries_[index].path_begin, entries_[index].path_bytes);
}

std::optional<Extent> Spool::raw_extent() const {
  for (const auto& entry : entries_)
    if (entry.is_file || entry.extent != entries_.front().extent) return {};
  return entries_.empty() ? std::nullopt : std::optional(entries_.front().extent);
}

}  // namespace penstock::python
