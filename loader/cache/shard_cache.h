// ShardCache: whole shards on the disk of the node, fetched from far away when they are needed.
//
// Lives here: what is kept of far files: the folder that processes share (folder.h) and their requests (node_turns.h),
// one shard as memory (far_map.h) or in parts (far_files.cpp), what is fetched ahead (ahead.h, fetch_queue.h), and the
// plug-ins of `Files` for addresses (far_files.cpp).
// Not here: how bytes come from far (loader/far), and which samples are next (loader/order).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "core/mutex.h"
#include "loader/cache/folder.h"
#include "loader/cache/node_turns.h"
#include "loader/cache/wait_line.h"
#include "loader/far/origin.h"
#include "loader/files/files.h"

namespace penstock::detail {

/// A shard, where it is, and who knows how to ask for it.
struct FarShard {
  std::string address;
  FileFacts facts;
  Origin* origin = nullptr;
};

/// What holds a shard's file open, and can let go of it while nobody reads.
class Droppable {
 public:
  virtual ~Droppable() = default;
  virtual void drop_unless_read() = 0;
};

/// The cache that PENSTOCK_CACHE_DIR and PENSTOCK_CACHE_LIMIT name. One per process, made when it is first needed.
/// Thread-safety: any thread.
class ShardCache {
 public:
  static ShardCache& instance();

  /// The file of a shard, held for reading; fetched and verified if it is not there. Waits where another process
  /// fetches it, and goes ahead on its own when that has not moved for 3 s. Errors: as transfer(); corrupt_error where
  /// the object has another XXH3 than `facts` twice; config_error where there is no room for 60 s because all of it is
  /// being read; OutOfFiles where all that this process has open is being read.
  OpenFile get(const FarShard& shard);
  /// The same ahead of time: returns whether the shard is there now. False where there is no room for it but that of
  /// shards that are needed, or another process fetches it.
  bool fetch_ahead(const FarShard& shard);

  bool has(const FarShard& shard) { return bool{open_whole(shard)}; }  ///< Whether the whole of it is there.

  void add(const std::string& sum, Droppable& holder);
  void remove(const std::string& sum, Droppable& holder);

  /// Says that nobody needs a shard soon: it is the first to go when room is wanted.
  void leave(const std::string& sum);
  /// Removes a shard that is not what was fetched any more: whoever needs it next fetches it again.
  void remove_damaged(const std::string& sum) { folder_.remove_damaged(sum); }
  uint64_t room(uint64_t byte_count) const { return folder_.room(byte_count); }
  const std::filesystem::path& folder() const { return folder_.path(); }
  void end_transfers() { is_ending_ = true; }  ///< Gives up what is on its way, at the end of the process.

 private:
  ShardCache();
  CacheFolder::Place take(const FarShard& shard, CacheFolder::Evicts evicts, bool is_beside);
  OpenFile get_absent(const FarShard& shard);
  OpenFile open_whole(const FarShard& shard);
  template <class Step>
  auto with_files(const Step& step);
  void download(const FarShard& shard, CacheFolder::Place& place);
  void drop(const std::string& sum);
  void drop_all();
  void keep_watch();

  CacheFolder folder_;
  NodeTurns turns_{folder_};
  Mutex mutex_;
  std::multimap<std::string, Droppable*> holders_ PENSTOCK_GUARDED_BY(mutex_);
  std::atomic<bool> is_ending_{false};
  WaitLine waits_;
  std::thread watcher_;
};

}  // namespace penstock::detail
