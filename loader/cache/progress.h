// Progress: how far a download is, at the end of its file.
#pragma once

#include <cstdint>
#include <optional>

namespace penstock::detail {

/// How far a download is. While a shard is being fetched, its file has this after the space for the shard's bytes.
struct Progress {
  char magic[8];   // kProgressMagic
  uint64_t done;   // bytes from the first one that are there
  uint64_t beat;   // grows while the download lives
  char etag[128];  // of the object, "" if it has none or a longer one
};
constexpr char kProgressMagic[8] = {'p', 's', 'p', 'a', 'r', 't', '1', '\n'};

/// Nothing if the place is new, or holds another shard's.
std::optional<Progress> read_progress(int descriptor, uint64_t byte_count);
void write_progress(int descriptor, uint64_t byte_count, const Progress& progress);

}  // namespace penstock::detail
