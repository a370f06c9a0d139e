// SkippedPicture: a broken picture that pack() left out, and the list of all of them in the split's folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "loader/sources/source.h"

namespace penstock::detail {

struct SkippedPicture {
  uint64_t id = 0;
  std::string reason;  // UTF-8; does not name the file
};

/// The picture that an error is about. `message` may begin with source.where(id), which is left out of the reason.
SkippedPicture skipped_picture(const Source& source, uint64_t id, const std::string& message);

/// Writes a line of JSON per picture, in order of their ids: id (from `first_id` on), path in the source's folder,
/// reason. Bytes that are not UTF-8 become U+FFFD. Errors: io_error.
void write_skipped(const std::filesystem::path& file, std::vector<SkippedPicture> skipped, const Source& source,
                   uint64_t first_id = 0);

}  // namespace penstock::detail
