// download(): a whole shard into its place, hashed while it comes.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "loader/cache/folder.h"
#include "loader/far/origin.h"
#include "loader/files/files.h"

namespace penstock::detail {

/// How a download looks from outside.
struct DownloadWatch {
  const std::atomic<bool>& is_ending;     ///< Gives it up.
  std::function<void(uint64_t)> on_done;  ///< Is told how many bytes are there.
  std::function<bool()> is_waited_for;    ///< Whether somebody waits for the shard now. Any thread.
};

/// Fills `place` with the object at `address`, going on with the bytes that are there, and checks its XXH3. An object
/// that changes meanwhile is begun again once, and bytes with another XXH3 are fetched again once, on a new connection.
/// What is slow and waited for is asked for twice (hedged_transfer()). Errors: as transfer(); corrupt_error where that
/// was not enough.
void download(Origin& origin, const std::string& address, const FileFacts& facts, const CacheFolder::Place& place,
              const DownloadWatch& watch);

}  // namespace penstock::detail
