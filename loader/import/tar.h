// TarMember: the files in a tar archive, found without trust.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace penstock::detail {

struct TarMember {
  std::string path;
  uint64_t offset = 0, size = 0;  // bytes in the archive
};

/// Calls `visit` for each regular file of an archive, in its order: ustar, pax and GNU's long names. Folders are passed
/// over. Returns whether the archive has its end of two blocks of zeros, which some programs leave out.
///
/// Errors: corrupt_error `<where>: ...` for a header whose checksum is wrong, a path with `..` or that is absolute, a
/// link, a device, a sparse file, an archive that is cut short or empty, and whatever follows the end but zeros.
/// Memory: one path.
bool for_each_member(std::span<const uint8_t> archive, const std::string& where,
                     const std::function<void(const TarMember&)>& visit);

}  // namespace penstock::detail
