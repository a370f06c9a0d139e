// Picture files: what sources share that read a file per sample.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "loader/files/field.h"
#include "loader/sources/source.h"

namespace penstock::detail {

/// Whether there is a regular file of this name; false also for a name that no file system takes.
bool is_file(const std::filesystem::path& path);

/// Whether a file is a picture by its first bytes or by its name. The name counts so that a broken file called .jpg is
/// not silently skipped.
bool is_picture(const std::filesystem::path& path);

/// The pictures below `folder`, at any depth, sorted by bytes. Links to folders are followed. Adds to `ignored`, with
/// their paths below `root`: other files, hidden files and folders (other programs' leftovers), and what is neither
/// file nor folder (pipes, dangling links). Throws io_error for a picture's name on anything that is not a regular
/// file, and for a link to a folder that it lies in.
std::vector<std::filesystem::path> pictures_below(const std::filesystem::path& folder,
                                                  const std::filesystem::path& root, IgnoredFiles& ignored);

/// picture_sample() of a file. Errors: io_error, corrupt_error, which name the file.
SourceSample read_picture(const std::filesystem::path& path);

/// A mask file for a field of kind mask: a PNG with a grey level per pixel, which a GIF, TIFF, BMP or PGM becomes. A
/// palette's numbers become the levels, never its colours; a grey PNG stays as it is. Errors: corrupt_error, also for
/// colours, naming no file.
FieldValue mask_value(std::vector<uint8_t> bytes);
FieldValue read_mask(const std::filesystem::path& path);

/// A PNG, or an array for what no PNG holds, for a field of kind picture. JPEGs are refused: their pixels would not be
/// stored losslessly and small.
FieldValue read_second_picture(const std::filesystem::path& path);

/// The bytes of a file in a field of kind mask or picture, of which a foreign format becomes a PNG or an array. All
/// other values stay as they are. Errors: corrupt_error, which names the field.
FieldValue field_file_value(const FieldType& type, FieldValue bytes);

/// The file_fingerprint() of many files, as one short text that depends on their order.
class Fingerprint {
 public:
  void add(const std::filesystem::path& file);
  void add_text(const std::string& text);
  const std::string& text() const { return hash_; }

 private:
  std::string hash_;  // chained, because a text of all names would be larger than everything else that pack() holds
};

/// A path as a list or an archive has it, without the parts `.`; nothing where it is no plain one below its folder:
/// where it is absolute, or has `..`, empty parts or zeros.
std::optional<std::string> plain_path(const std::string& path);

}  // namespace penstock::detail
