// download(): a whole shard into its place, hashed while it comes.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "loader/cache/folder.h"
#include "loader/far/origin.h"
#include "loader/files/files.h"

namespace penstock::detail {

/// Fills `place` with the object at `address`, going on with the bytes that are there, and checks its XXH3. An object
/// that changes meanwhile is begun again once, and bytes with another XXH3 are fetched again once, on a new connection.
/// Errors: as transfer(); corrupt_error where that was not enough. `is_ending` gives
/// it up, and `on_done` is told how many bytes are there.
void download(Origin& origin, const std::string& address, const FileFacts& facts, const CacheFolder::Place& place,
              const std::atomic<bool>& is_ending, const std::function<void(uint64_t)>& on_done);

}  // namespace penstock::detail
