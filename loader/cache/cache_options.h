// The cache of the node: where it is and how large it may be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace penstock {

/// Environment variables that say where shards from far away are kept, and in how many bytes. They are how the ranks
/// that a process starts get them as well.
constexpr const char* kCacheDirVariable = "PENSTOCK_CACHE_DIR";
constexpr const char* kCacheLimitVariable = "PENSTOCK_CACHE_LIMIT";

/// The folder: PENSTOCK_CACHE_DIR, otherwise ${XDG_CACHE_HOME:-~/.cache}/penstock-shards.
std::filesystem::path cache_folder();

/// Bytes of `100gb`, `500mb`, `8kb`, `123` or, of a disk of `disk_bytes`, `80%`. Units are powers of 1000. Throws
/// config_error, which begins with `where`, for another text, and for 0.
uint64_t parse_byte_limit(const std::string& where, const std::string& text, uint64_t disk_bytes);

/// A file of the cache.
struct CachedShard {
  std::filesystem::path path;
  std::string sum;
  bool is_whole = false;    // verified when it was downloaded; otherwise a download that goes on or can go on
  bool is_in_use = false;   // some process reads or writes it
  uint64_t byte_count = 0;  // on the disk
  int64_t used_ns = 0;      // when it was last used
};

}  // namespace penstock
