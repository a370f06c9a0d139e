// Compression: files that gzip or zstd has packed, unpacked without trust.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "loader/files/mapped_file.h"

namespace penstock::detail {

/// Calls `write` with the unpacked bytes of `file`, one piece after the other. Returns false, without a call, for a
/// file that is not compressed.
///
/// Errors: corrupt_error `<where>: ...` for a stream that is broken, cut short or followed by something else, for
/// another compression (bzip2, xz, lz4), and for more than 1 MiB and 100 bytes per byte of the file: archives of
/// pictures shrink by little, so that this is a bomb. Memory: 1 MiB, and for zstd a window of up to 128 MiB.
bool unpack_stream(std::span<const uint8_t> file, const std::string& where,
                   const std::function<void(std::span<const uint8_t>)>& write);

/// The file, mapped. In place of a compressed one that is its unpacked copy, which lies in TMPDIR without a name and is
/// gone with the process; messages name the file itself. Errors: io_error, also for a full TMPDIR, and corrupt_error.
std::unique_ptr<MappedFile> map_unpacked(const std::filesystem::path& path);

}  // namespace penstock::detail
