// CacheFolder: locks, budget and names.
#include "loader/cache/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/cache/progress.h"
#include "loader/far/link_stats.h"

namespace penstock::detail {

namespace fs = std::filesystem;

struct CacheFolder::Marker {
  char text[24];
  std::atomic<uint64_t> limit_bytes, room_wishes, holder;  // holder: the process that has the lock of the folder
};

namespace {

constexpr const char* kMarkerName = "penstock-cache";
constexpr char kMarkerText[] = "penstock shard cache 1\n";
constexpr size_t kMarkerVersion = sizeof kMarkerText - 3;  // where the text says it
constexpr uint64_t kBlockBytes = 4096, kMarkerBytes = 4096;
constexpr uint64_t kSyncBytes = 16 << 20;
constexpr size_t kXxh3Digits = 32, kSha256Digits = 64;
constexpr int64_t kSpent_ns = 0;  // the time of last use of a shard that nobody needs soon
constexpr auto kLockStep = std::chrono::milliseconds(2);
constexpr int kLockSteps = 15'000;  // 30 s
enum LockByte : off_t { kFolderByte = 0, kUsersByte = 1, kSharedByte = kMarkerBytes - CacheFolder::kSharedBytes };

struct flock lock_of(short type, off_t byte) {
  struct flock wish {};
  wish.l_type = type;
  wish.l_whence = SEEK_SET;
  wish.l_start = byte;
  wish.l_len = 1;
  return wish;
}

bool set_lock(int descriptor, short type, off_t byte) {
  struct flock wish = lock_of(type, byte);
  return fcntl(descriptor, F_OFD_SETLK, &wish) == 0;
}

uint64_t on_disk(uint64_t byte_count) { return (byte_count + kBlockBytes - 1) / kBlockBytes * kBlockBytes; }

/// The sum that the name of a file of the cache begins with; "" for another name.
std::string sum_of_name(const std::string& name) {
  const size_t digits = std::min(name.find_first_not_of("0123456789abcdef"), name.size());
  return digits == kXxh3Digits || digits == kSha256Digits ? name.substr(0, digits) : "";
}
bool is_whole_name(const std::string& name) { return name == sum_of_name(name) + ".shard" && name[0] != '.'; }
bool is_partial_name(const std::string& name) { return name.ends_with(".partial") && !sum_of_name(name).empty(); }

Error foreign_error(const fs::path& file) {
  return io_error(concat(file.string(), ": is no regular file; expected only the cache's own files under such names: ",
                         "remove it, or name another --cache-dir"));
}

/// A file of the cache; as open() where it cannot be opened, but for want of descriptors. Never waits, as for the other
/// end of a pipe. Throws io_error for what is no file, which is never read, written or removed.
OpenFile open_file(const fs::path& file, int flags) {
  OpenFile opened(open(file.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
  if (!opened && (errno == EMFILE || errno == ENFILE)) throw OutOfFiles(file.string());
  struct stat status {};
  const bool is_there =
      opened ? fstat(opened.descriptor(), &status) == 0
             : (errno == ELOOP || errno == ENXIO || errno == EISDIR) && lstat(file.c_str(), &status) == 0;
  if (is_there && !S_ISREG(status.st_mode)) throw foreign_error(file);
  return opened;
}

/// A cache would be a foreign file of a packed data set, and go wherever that is copied.
void check_place(const fs::path& folder) {
  std::error_code ignored;  // what cannot be looked at is found when the folder is made
  fs::path around = fs::absolute(folder, ignored).lexically_normal();
  if (!around.has_filename()) around = around.parent_path();  // after a slash at its end
  around = around.parent_path();
  for (const char* split : {".", "train", "test", "all"})
    if (fs::exists(around / split / "manifest.json", ignored))
      throw config_error(concat("--cache-dir ", folder.string(), ": is inside of the packed data set ", around.string(),
                                "; expected a folder elsewhere"));
}

/// A file of another size that does not begin as a marker does is not a damaged one, but perhaps somebody's file of
/// that name: it is not written to.
void check_marker_file(int descriptor, uint64_t byte_count, const fs::path& file) {
  char text[sizeof kMarkerText] = {};
  const bool has_text = pread(descriptor, text, sizeof text, 0) == static_cast<ssize_t>(sizeof text);
  if (has_text && std::memcmp(text, kMarkerText, sizeof text) == 0) return;
  if (has_text && std::memcmp(text, kMarkerText, kMarkerVersion) == 0)
    throw config_error(
        concat(file.string(), ": is not the marker of a cache of this version; expected another folder"));
  if (byte_count == 0 || byte_count == kMarkerBytes) return;
  throw io_error(concat(file.string(), ": is no marker of a cache: it has ", byte_count, " bytes, and one has ",
                        kMarkerBytes, "; expected to find one: remove the folder, or name another --cache-dir"));
}

Error folder_error(const fs::path& folder, const char* expected) { return errno_error(folder.string(), expected); }

}  // namespace

OpenFile::OpenFile(OpenFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}
OpenFile::~OpenFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

CacheFolder::CacheFolder(fs::path folder, const std::string& limit_text) : folder_(std::move(folder)) {
  check_place(folder_);
  std::error_code failure;
  fs::create_directories(folder_, failure);
  if (failure)
    throw io_error(
        concat(folder_.string(), ": ", failure.message(), "; expected a folder for the cache (--cache-dir)"));
  struct statfs disk {};
  if (statfs(folder_.c_str(), &disk) == 0 && disk.f_type == NFS_SUPER_MAGIC)
    throw config_error(concat("--cache-dir ", folder_.string(), ": is on NFS; expected a disk of this machine"));
  check_contents();
  open_marker();
  agree_on_limit(limit_text);
}

CacheFolder::CacheFolder(fs::path folder) : folder_(std::move(folder)) {
  if (!fs::exists(folder_ / kMarkerName))
    throw io_error(concat(folder_.string(), ": no cache; expected the folder of one (--cache-dir)"));
  open_marker();
  limit_bytes_ = marker_->limit_bytes.load();
}

CacheFolder::~CacheFolder() {
  if (marker_ != nullptr) munmap(marker_, kMarkerBytes);
}

/// A folder becomes a cache only while it is empty, so that nobody's files are ever taken for it.
void CacheFolder::check_contents() const {
  std::error_code failure;
  if (fs::exists(folder_ / kMarkerName, failure)) return;
  size_t count = 0;
  for (fs::directory_iterator entry(folder_, failure), end; !failure && entry != end; entry.increment(failure)) ++count;
  if (failure) throw io_error(concat(folder_.string(), ": ", failure.message(), "; expected a folder for the cache"));
  if (count > 0 && !fs::exists(folder_ / kMarkerName, failure))  // another process may have begun it meanwhile
    throw config_error(concat("--cache-dir ", folder_.string(), ": holds ", count_text(count, "file"),
                              " and is no cache; expected a new or empty folder"));
}

void CacheFolder::open_marker() {
  const fs::path file = folder_ / kMarkerName;
  marker_file_ = open_file(file, O_RDWR | O_CREAT);
  if (!marker_file_) throw folder_error(file, "expected a cache folder that can be written");
  struct stat status {};
  if (fstat(marker_file_.descriptor(), &status) != 0) throw folder_error(file, "expected the marker of a cache");
  check_marker_file(marker_file_.descriptor(), static_cast<uint64_t>(status.st_size), file);
  if (status.st_size < static_cast<off_t>(kMarkerBytes) &&
      posix_fallocate(marker_file_.descriptor(), 0, kMarkerBytes) != 0) {
    errno = ENOSPC;
    throw folder_error(file, "expected room for the marker of the cache");
  }
  void* const map = mmap(nullptr, kMarkerBytes, PROT_READ | PROT_WRITE, MAP_SHARED, marker_file_.descriptor(), 0);
  if (map == MAP_FAILED) throw folder_error(file, "expected to map the marker of the cache");
  marker_ = static_cast<Marker*>(map);
  if (std::memcmp(marker_->text, kMarkerText, sizeof kMarkerText) != 0) mend_marker();
}

/// Writes a new or damaged marker. All that it says besides its text is of those who use the cache.
void CacheFolder::mend_marker() {
  const Lock held(*this);
  if (std::memcmp(marker_->text, kMarkerText, sizeof kMarkerText) == 0) return;  // another process was faster
  if (!set_lock(marker_file_.descriptor(), F_WRLCK, kUsersByte))
    throw io_error(concat((folder_ / kMarkerName).string(), ": is damaged while others use the cache; expected its ",
                          "text to stay: end the programs that use the cache, and the next one mends it"));
  std::memset(static_cast<void*>(marker_), 0, kMarkerBytes);
  std::memcpy(marker_->text, kMarkerText, sizeof kMarkerText);
  set_lock(marker_file_.descriptor(), F_UNLCK, kUsersByte);
}

void CacheFolder::agree_on_limit(const std::string& limit_text) {
  struct statvfs disk {};
  if (statvfs(folder_.c_str(), &disk) != 0) throw folder_error(folder_, "expected a folder for the cache");
  const uint64_t disk_bytes = uint64_t{disk.f_blocks} * disk.f_frsize;
  const Lock held(*this);
  const bool is_alone = set_lock(marker_file_.descriptor(), F_WRLCK, kUsersByte);
  if (is_alone) std::ranges::fill(shared(), std::byte{0});
  const uint64_t in_force = marker_->limit_bytes.load();
  if (!limit_text.empty()) {
    limit_bytes_ = parse_byte_limit("--cache-limit", limit_text, disk_bytes);
    if (!is_alone && in_force != limit_bytes_)
      throw config_error(concat("--cache-limit ", limit_text, ": the cache ", folder_.string(), " is in use with ",
                                in_force, " bytes; expected the same limit of all that share it, here ", limit_bytes_));
  } else {
    const uint64_t free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
    limit_bytes_ = is_alone ? (free_bytes + used_bytes()) / 5 * 4 : in_force;
  }
  marker_->limit_bytes = limit_bytes_;
  set_lock(marker_file_.descriptor(), F_RDLCK, kUsersByte);  // as long as this process lives
}

uint64_t CacheFolder::room(uint64_t byte_count) const {
  if (byte_count > limit_bytes_) return 0;  // and so that the sum below cannot wrap
  return limit_bytes_ < kMarkerBytes ? 0 : (limit_bytes_ - kMarkerBytes) / on_disk(byte_count + sizeof(Progress));
}

CacheFolder::Lock::Lock(CacheFolder& folder) : folder_(folder), mutex_lock_(folder.mutex_) {
  for (int step = 0; !set_lock(folder_.marker_file_.descriptor(), F_WRLCK, kFolderByte); ++step) {
    if (errno != EAGAIN && errno != EACCES) throw folder_error(folder_.folder_, "expected a disk with locks");
    if (step == kLockSteps)
      throw io_error(concat(folder_.folder_.string(), ": process ", folder_.marker_->holder.load(),
                            " has the lock of the cache for 30 s; expected it to go on or to end"));
    std::this_thread::sleep_for(kLockStep);
  }
  folder_.marker_->holder = static_cast<uint64_t>(getpid());
}

CacheFolder::Lock::~Lock() { set_lock(folder_.marker_file_.descriptor(), F_UNLCK, kFolderByte); }

std::vector<CachedShard> CacheFolder::list() const {
  std::vector<CachedShard> found;
  std::error_code failure;
  for (fs::directory_iterator entry(folder_, failure), end; !failure && entry != end; entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    const bool is_whole = is_whole_name(name);
    struct stat status {};
    if ((!is_whole && !is_partial_name(name)) || lstat(entry->path().c_str(), &status) != 0) continue;
    if (!S_ISREG(status.st_mode)) continue;
    found.push_back({.path = entry->path(),
                     .sum = sum_of_name(name),
                     .is_whole = is_whole,
                     .byte_count = on_disk(static_cast<uint64_t>(status.st_size)),
                     .used_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec});
  }
  if (failure == std::errc::too_many_files_open || failure == std::errc::too_many_files_open_in_system)
    throw OutOfFiles(folder_.string());
  if (failure) throw io_error(concat(folder_.string(), ": ", failure.message(), "; expected the folder of the cache"));
  std::sort(found.begin(), found.end(), [](const CachedShard& a, const CachedShard& b) {
    return std::tie(a.used_ns, a.path) < std::tie(b.used_ns, b.path);
  });
  return found;
}

uint64_t CacheFolder::used_bytes() const {
  uint64_t used = kMarkerBytes;
  for (const auto& shard : list()) used += shard.byte_count;
  return used;
}

bool CacheFolder::remove_unused(const fs::path& file) {
  const OpenFile opened = open_file(file, O_RDONLY);
  if (!opened || flock(opened.descriptor(), LOCK_EX | LOCK_NB) != 0) return false;
  return unlink(file.c_str()) == 0;
}

OpenFile CacheFolder::open_whole(const std::string& sum, uint64_t byte_count) const {
  const fs::path file = folder_ / (sum + ".shard");
  OpenFile opened = open_file(file, O_RDONLY);
  if (!opened || flock(opened.descriptor(), LOCK_SH | LOCK_NB) != 0) return OpenFile();
  struct stat status {};
  // Without a name it was removed between open and lock: nobody counts its bytes any more.
  if (fstat(opened.descriptor(), &status) != 0 || status.st_nlink == 0) return OpenFile();
  if (static_cast<uint64_t>(status.st_size) != byte_count) return OpenFile();  // cut by somebody; it is fetched again
  futimens(opened.descriptor(), nullptr);
  return opened;
}

bool CacheFolder::make_room(uint64_t byte_count, Evicts evicts,
                            const std::function<void(const std::string& sum)>& drop) {
  const auto shards = list();
  uint64_t used = kMarkerBytes;
  for (const auto& shard : shards) used += shard.byte_count;
  for (const auto& shard : shards) {
    if (used + byte_count <= limit_bytes_) return true;
    if (evicts == Evicts::kSpent && shard.used_ns != kSpent_ns) return false;  // the first ones are the spent ones
    drop(shard.sum);
    if (!remove_unused(shard.path)) continue;
    used -= shard.byte_count;
    count_eviction();
  }
  return used + byte_count <= limit_bytes_;
}

void CacheFolder::mark_spent(const std::string& sum) const {
  const timespec spent[2] = {{kSpent_ns, 0}, {kSpent_ns, 0}};
  utimensat(AT_FDCWD, (folder_ / (sum + ".shard")).c_str(), spent, AT_SYMLINK_NOFOLLOW);
}

CacheFolder::Place CacheFolder::open_place(const fs::path& path, uint64_t byte_count) {
  Place place{Place::Kind::kBusy, open_file(path, O_RDWR | O_CREAT), path};
  if (!place.file) throw folder_error(path, "expected a cache folder that can be written");
  if (flock(place.file.descriptor(), LOCK_EX | LOCK_NB) == 0) place.kind = Place::Kind::kTaken;
  if (place.kind == Place::Kind::kBusy) return place;
  if (fallocate(place.file.descriptor(), 0, 0, static_cast<off_t>(byte_count)) == 0) return place;
  const int code = errno;
  unlink(path.c_str());
  errno = code;
  throw folder_error(path, code == EOPNOTSUPP ? "expected a disk that can reserve space (ext4, xfs, btrfs, tmpfs)"
                                              : "expected room on the disk, or a smaller --cache-limit");
}

CacheFolder::Place CacheFolder::take(const std::string& sum, uint64_t byte_count, Evicts evicts, bool is_beside,
                                     const std::function<void(const std::string& sum)>& drop) {
  const uint64_t wanted = on_disk(byte_count + sizeof(Progress));
  if (wanted + kMarkerBytes > limit_bytes_)
    throw config_error(concat("--cache-limit: is ", limit_bytes_, " bytes; expected at least ", wanted + kMarkerBytes,
                              " for the shard ", sum));
  const std::string name = is_beside ? concat(sum, "-", getpid(), ".partial") : sum + ".partial";
  const fs::path path = folder_ / name;
  const Lock held(*this);
  struct stat status {};
  const bool is_there = lstat(path.c_str(), &status) == 0;
  const bool has_room = is_there && on_disk(static_cast<uint64_t>(status.st_size)) == wanted;
  if (is_there && !has_room && !remove_unused(path)) return {};
  if (!has_room && !make_room(wanted, evicts, drop)) return {.kind = Place::Kind::kNoRoom};
  return open_place(path, byte_count + sizeof(Progress));
}

/// Brings a file to the disk in pieces. Each one sets the time of its last change, by which others see that its
/// download lives: a large file may take longer than they wait. What the kernel cannot do so is left to fdatasync(),
/// but for errors of the disk, which it would not tell a second time.
bool sync_in_pieces(int descriptor, uint64_t byte_count) {
  for (uint64_t at = 0; at < byte_count; at += kSyncBytes) {
    constexpr unsigned kWhole = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    if (sync_file_range(descriptor, static_cast<off_t>(at), kSyncBytes, kWhole) != 0 &&
        (errno == EIO || errno == ENOSPC || errno == EDQUOT))
      return false;
    futimens(descriptor, nullptr);
  }
  return fdatasync(descriptor) == 0;
}

void CacheFolder::publish(Place& place, const std::string& sum, uint64_t byte_count) {
  const int descriptor = place.file.descriptor();
  const fs::path whole = folder_ / (sum + ".shard");
  // Before the name says that it is whole: after a power cut the bytes are there or the name is not.
  if (ftruncate(descriptor, static_cast<off_t>(byte_count)) != 0 || !sync_in_pieces(descriptor, byte_count))
    throw folder_error(place.path, "expected to write the shard to the disk");
  const Lock held(*this);                          // nobody removes it between the two locks
  if (auto other = open_whole(sum, byte_count)) {  // of a download beside this one, and others may read it already
    unlink(place.path.c_str());
    place.file = std::move(other);
    place.path = whole;
    return;
  }
  if (rename(place.path.c_str(), whole.c_str()) != 0) throw folder_error(whole, "expected to name a whole shard");
  flock(descriptor, LOCK_SH);
  place.path = whole;
}

void CacheFolder::discard(Place& place) {
  const Lock held(*this);
  unlink(place.path.c_str());
  place.file = OpenFile();
}

void CacheFolder::remove_damaged(const std::string& sum) {
  const Lock held(*this);
  unlink((folder_ / (sum + ".shard")).c_str());
}

std::span<std::byte> CacheFolder::shared() const {
  return {reinterpret_cast<std::byte*>(marker_) + kSharedByte, kSharedBytes};
}
bool CacheFolder::lock_shared(size_t byte) {
  return set_lock(marker_file_.descriptor(), F_WRLCK, kSharedByte + static_cast<off_t>(byte));
}
void CacheFolder::unlock_shared(size_t byte) {
  set_lock(marker_file_.descriptor(), F_UNLCK, kSharedByte + static_cast<off_t>(byte));
}
bool CacheFolder::is_locked_by_others(size_t byte) const {
  struct flock wish = lock_of(F_WRLCK, kSharedByte + static_cast<off_t>(byte));
  return fcntl(marker_file_.descriptor(), F_OFD_GETLK, &wish) == 0 && wish.l_type != F_UNLCK;
}

void CacheFolder::ask_for_room() { marker_->room_wishes.fetch_add(1); }
uint64_t CacheFolder::room_wishes() const { return marker_->room_wishes.load(std::memory_order_relaxed); }

}  // namespace penstock::detail
