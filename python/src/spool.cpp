// Spool: appends to a file without a name, and reads from it by position.
#include "python/src/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "loader/codecs/codec.h"

namespace penstock::python {
namespace {

namespace fs = std::filesystem;

fs::path existing_folder(const fs::path& folder) {
  fs::path at = fs::absolute(folder);
  std::error_code ignored;
  while (!fs::is_directory(at, ignored) && at.has_relative_path()) at = at.parent_path();
  return at;
}

/// A file without a name; where the file system has none, one whose name is removed at once.
int unnamed_file(const fs::path& folder) {
  const int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  std::string name = (folder / ".penstock-XXXXXX").string();
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named < 0) throw errno_error(folder.string(), "expected a folder that can be written to");
  unlink(name.c_str());
  return named;
}

}  // namespace

Spool::Spool(const fs::path& folder, bool keeps_corrupt)
    : keeps_corrupt_(keeps_corrupt), folder_(existing_folder(folder)) {
  file_ = unnamed_file(folder_);
}

Spool::~Spool() { close(file_); }

void Spool::add_file(std::span<const uint8_t> bytes, int64_t label, const std::string& path) {
  if (!keeps_corrupt_) detect_encoding(bytes);  // throws
  add(bytes, {.label = label, .is_file = true, .extent = {}}, path);
}

void Spool::add_pixels(std::span<const uint8_t> pixels, const Extent& extent, int64_t label) {
  constexpr int kMaxSide = 65535;  // a shard stores sides in 16 bits
  const bool is_picture = extent.height >= 1 && extent.height <= kMaxSide && extent.width >= 1 &&
                          extent.width <= kMaxSide && (extent.channels == 1 || extent.channels == 3);
  if (!is_picture)
    throw config_error(concat("pixels of ", extent.height, " x ", extent.width, " x ", extent.channels,
                              "; expected H x W x 1 or H x W x 3, with sides of 1 to ", kMaxSide));
  add(pixels, {.label = label, .extent = extent}, {});
}

void Spool::add(std::span<const uint8_t> bytes, Entry entry, const std::string& path) {
  entry.begin = byte_count_;
  entry.byte_count = bytes.size();
  entry.path_begin = paths_.size();
  entry.path_bytes = path.size();
  while (!bytes.empty()) {
    const ssize_t count = pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(byte_count_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw errno_error(concat(folder_.string(), ": the pictures before packing"), "expected room for all of them");
    checksum_ = crc32c(bytes.first(static_cast<size_t>(count)), checksum_);
    byte_count_ += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  const std::string head =
      concat(entry.label, ' ', entry.extent.height, ' ', entry.extent.width, ' ', entry.extent.channels, ' ', path);
  checksum_ = crc32c({reinterpret_cast<const uint8_t*>(head.data()), head.size()}, checksum_);
  paths_ += path;
  entries_.push_back(entry);
}

void Spool::set_classes(std::vector<std::string> names, const std::vector<int64_t>& numbers) {
  class_names_ = std::move(names);
  for (auto& entry : entries_) entry.label = numbers.at(static_cast<size_t>(entry.label));
}

SourceSample Spool::read(uint64_t index) const {
  const Entry& entry = entries_[index];
  SourceSample sample{std::vector<uint8_t>(entry.byte_count), Encoding::kRaw, entry.extent};
  for (size_t done = 0; done < entry.byte_count;) {
    const ssize_t count =
        pread(file_, sample.bytes.data() + done, entry.byte_count - done, static_cast<off_t>(entry.begin + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw errno_error(where(index), "expected that what was written can be read");
    done += static_cast<size_t>(count);
  }
  if (!entry.is_file) return sample;
  try {
    sample.encoding = detect_encoding(sample.bytes);
    sample.extent = codec_for(sample.encoding).probe(sample.bytes);
  } catch (const Error& error) {
    throw Error(error.kind(), concat(where(index), ": ", error.what()));
  }
  return sample;
}

std::string Spool::fingerprint() const { return concat("items ", entries_.size(), ' ', byte_count_, ' ', checksum_); }

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
