// CacheFolder: a folder of shards with a budget, which processes share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/limits.h"
#include "core/mutex.h"
#include "loader/cache/cache_options.h"

namespace penstock::detail {

/// Closes its descriptor, and with it ends its locks.
class OpenFile {
 public:
  explicit OpenFile(int descriptor = -1) : descriptor_(descriptor) {}
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;
  ~OpenFile();
  int descriptor() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

/// The folder holds
///   penstock-cache       the marker: whose folder it is, its limit, and the locks of what follows
///   <sum>.shard          a whole shard, verified; readers hold it with flock(LOCK_SH)
///   <sum>.partial        one that is being downloaded by whoever has flock(LOCK_EX), or that was left by a process
///   <sum>-<pid>.partial  that has ended; the second form is a download beside one that has stopped
/// and nothing else. The sum is FileFacts::sum(), so that no other set can bring a shard of this name that is made to
/// have the same XXH3. Locks end with their process, however it ends. There is no table of contents that could disagree
/// with the folder: whoever needs room lists it, which takes 1 ms for 1,000 shards.
///
/// The budget is taken before the first byte of a download (fallocate), with the lock of the folder held, so that the
/// files never take more than the limit. Never removed are files that somebody has locked, and files that are none of
/// these.
///
/// A marker that was damaged is written anew, unless others use the cache.
///
/// Errors: io_error for a marker that is none or was damaged in use, and for a pipe, folder, device or link under the
/// name of a file of its own; config_error for a folder with other files and no marker, one on NFS, where locks are no
/// good, and one that is in use with another limit; io_error for one that cannot be written, and for a full disk;
/// OutOfFiles. Thread-safety: any thread.
class CacheFolder {
 public:
  /// `limit_text` as parse_byte_limit() takes it; "": the limit that is in force, or 80 % of what is free.
  CacheFolder(std::filesystem::path folder, const std::string& limit_text);
  /// A cache that is there, to look at and to remove from: the limit stays what it is, and who looks counts as no user
  /// of it. Throws io_error where there is none.
  explicit CacheFolder(std::filesystem::path folder);
  ~CacheFolder();

  const std::filesystem::path& path() const { return folder_; }
  uint64_t limit_bytes() const { return limit_bytes_; }
  /// How many shards of `byte_count` bytes the limit allows, while all of them may still be on their way.
  uint64_t room(uint64_t byte_count) const;

  /// A whole shard of that many bytes, held for reading; none if there is none.
  OpenFile open_whole(const std::string& sum, uint64_t byte_count) const;

  /// A place for a download.
  struct Place {
    enum class Kind { kTaken, kBusy, kNoRoom };
    Kind kind = Kind::kBusy;
    OpenFile file{};  // kTaken: locked
    std::filesystem::path path{};
  };
  /// Which whole shards and ended downloads may be removed to make room.
  enum class Evicts {
    kSpent,  // those that nobody needs soon (mark_spent())
    kAny     // besides, the others, those first that were not used for longest
  };
  /// Takes `byte_count` bytes for `sum`, or the place that an ended process has left. `drop` is asked to let go of a
  /// shard that this process holds without reading it. `is_beside`: a second place, because the download in the first
  /// has stopped.
  Place take(const std::string& sum, uint64_t byte_count, Evicts evicts, bool is_beside,
             const std::function<void(const std::string& sum)>& drop);
  /// Makes a whole shard the first one to go, until it is opened again.
  void mark_spent(const std::string& sum) const;

  /// Makes a finished download the whole shard of that name, cut to `byte_count`; its lock becomes that of a reader.
  /// Where another download was faster, its shard stays and is opened in place of this one.
  void publish(Place& place, const std::string& sum, uint64_t byte_count);
  /// Removes a download, and gives back its bytes.
  void discard(Place& place);

  /// Removes a whole shard whose bytes are not those of its name, also while others read it.
  void remove_damaged(const std::string& sum);

  /// Asks all processes to let go of shards that they hold without reading them.
  void ask_for_room();
  /// Changes when somebody asks.
  uint64_t room_wishes() const;

  /// Memory that the processes which share the folder have in common, zeros when the first of them opens it; each of
  /// its bytes can be locked by one of them, until that unlocks it or ends.
  static constexpr size_t kSharedBytes = 2048;
  std::span<std::byte> shared() const;
  /// False where another process has it. Requires that this process does not have it.
  bool lock_shared(size_t byte);
  void unlock_shared(size_t byte);
  bool is_locked_by_others(size_t byte) const;

  /// All files, by last use.
  std::vector<CachedShard> list() const;
  /// Removes a file unless somebody uses it. Requires that the caller has the lock of the folder.
  static bool remove_unused(const std::filesystem::path& file);

  class Lock;

 private:
  struct Marker;
  void check_contents() const;
  void open_marker();
  void mend_marker();
  void agree_on_limit(const std::string& limit_text);
  bool make_room(uint64_t byte_count, Evicts evicts, const std::function<void(const std::string& sum)>& drop)
      PENSTOCK_REQUIRES(mutex_);
  Place open_place(const std::filesystem::path& path, uint64_t byte_count) PENSTOCK_REQUIRES(mutex_);
  uint64_t used_bytes() const PENSTOCK_REQUIRES(mutex_);

  std::filesystem::path folder_;
  uint64_t limit_bytes_ = 0;
  OpenFile marker_file_;
  Marker* marker_ = nullptr;  // mapped
  Mutex mutex_;  // the lock of the folder is that of a process; this one is of its threads, and guards files
};

/// Held while files appear or disappear. Waits up to 30 s, then throws io_error with the number of the process that
/// has it.
class PENSTOCK_SCOPED_CAPABILITY CacheFolder::Lock {
 public:
  explicit Lock(CacheFolder& folder) PENSTOCK_ACQUIRE(folder.mutex_);
  ~Lock() PENSTOCK_RELEASE();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  CacheFolder& folder_;
  MutexLock mutex_lock_;
};

}  // namespace penstock::detail
