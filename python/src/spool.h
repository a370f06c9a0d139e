// Spool: pictures from an iterable of Python, on the disk until pack() has read them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/temporary.h"
#include "loader/sources/source.h"

namespace penstock::python {

/// An iterable gives its pictures once and in its order, while pack() deals them to shards by class and reads them on
/// many threads, without Python. So they are first written one after the other into a file without a name, which is
/// gone with the process, however that ends.
///
/// Memory: about 60 bytes per picture. Disk: the bytes of the pictures, as given.
class Spool final : public Source {
 public:
  /// The file is made in `folder` or the nearest folder above it that exists. With `keeps_corrupt` bytes of no known
  /// format are taken, so that read() refuses them and pack() leaves them out. Throws io_error.
  Spool(const std::filesystem::path& folder, bool keeps_corrupt, AnnotatedOn annotated_on);

  /// The fields of every item that is added after it.
  void set_fields(std::vector<FieldType> fields) { fields_ = std::move(fields); }
  /// What is known of the next picture: the orientation by which its pixels have been turned upright, and the height
  /// and width that its annotations state (0: none).
  void annotate_next(uint8_t turned_by, int height, int width) {
    next_turned_by_ = turned_by;
    next_annotated_ = {annotated_on_, height, width};
  }
  /// A JPEG or PNG file as it is. Throws corrupt_error for other bytes, unless they are kept.
  void add_file(std::span<const uint8_t> bytes, int64_t label, const std::string& path,
                const std::vector<FieldBytes>& fields);
  /// Pixels, H x W x C. Throws config_error for an extent that no picture has, and for another type than that of the
  /// pixels before.
  void add_pixels(std::span<const uint8_t> pixels, const Extent& extent, PixelType type, int64_t label,
                  const std::vector<FieldBytes>& fields);
  /// Label i becomes numbers[i], whose name is names[numbers[i]]. Requires that both are as long as there are labels.
  void set_classes(std::vector<std::string> names, const std::vector<int64_t>& numbers);

  uint64_t size() const override { return entries_.size(); }
  std::vector<std::string> class_names() const override { return class_names_; }
  int64_t label(uint64_t index) const override { return entries_[index].label; }
  SourceSample read(uint64_t index) const override;
  std::vector<FieldType> fields() const override { return fields_; }
  std::string fingerprint() const override;
  std::string where(uint64_t index) const override;
  std::string path(uint64_t index) const override;
  std::optional<Extent> raw_extent() const override;
  PixelType raw_pixels() const override { return type_.value_or(PixelType::kU8); }
  /// The type of all pixels that were added; nothing: none were.
  std::optional<PixelType> type() const { return type_; }

 private:
  struct Entry {
    uint64_t begin = 0, byte_count = 0;
    int64_t label = 0;
    bool is_file = false;
    Extent extent;  // of raw pixels; a file's header is read when it is packed
    uint8_t turned_by = 1;
    Annotated annotated = {};
    uint64_t path_begin = 0, path_bytes = 0;  // in paths_
  };
  void add(std::span<const uint8_t> bytes, Entry entry, const std::string& path, const std::vector<FieldBytes>& fields);
  void append(std::span<const uint8_t> bytes);

  UnnamedFile file_;
  std::optional<PixelType> type_;
  bool keeps_corrupt_;
  AnnotatedOn annotated_on_;
  uint8_t next_turned_by_ = 1;
  Annotated next_annotated_;
  std::vector<FieldType> fields_;
  std::vector<uint64_t> field_bytes_;  // entries x fields; the values lie behind the picture
  std::vector<Entry> entries_;
  std::string paths_;
  std::vector<std::string> class_names_;
  uint32_t checksum_ = 0;  // of all bytes, extents, labels and fields
};

}  // namespace penstock::python
