// Files: where the bytes of packed data sets and other safetensors files come from; a plug-in, found by the scheme of a
// path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/registry.h"

namespace penstock {

/// A whole file in memory, at an address that does not change. Readers take spans of bytes() once, and call nothing
/// virtual for each sample.
///
/// Bytes that can fail when they are touched, as those of a local file that is cut short, read as zeros then and count
/// as a fault (has_map_faults()); the two checks find them. Here they find nothing, for bytes that are all in memory.
/// Thread-safety: immutable after construction.
class FileMap {
 public:
  explicit FileMap(std::filesystem::path path, std::span<const uint8_t> bytes = {})
      : path_(std::move(path)), bytes_(bytes) {}
  virtual ~FileMap() = default;

  const std::filesystem::path& path() const { return path_; }
  std::span<const uint8_t> bytes() const { return bytes_; }
  /// Whether bytes() may be read only while a FileHold of this map exists, because they come and go: those of a file
  /// that is far away. Their address stays.
  bool needs_hold() const { return needs_hold_; }

  /// Throws io_error `<where>: <what happened to the file>` when `used`, a part of bytes() that was read before, could
  /// not be read. Where speed counts, call it only if has_map_faults().
  virtual void check_read(std::span<const uint8_t> /*used*/, const std::string& /*where*/) const {}
  void check_read() const { check_read(bytes_, path_.string()); }
  /// As check_read(), and also asks whether the file still has all of `used`. Meant for the end of an epoch, and before
  /// an error is blamed on the bytes.
  virtual void check_file(std::span<const uint8_t> /*used*/, const std::string& /*where*/) const {}
  void check_file() const { check_file(bytes_, path_.string()); }

  /// Begins to read the whole file into memory, and does not wait for it. Here it does nothing, for bytes that are in
  /// memory.
  virtual void read_ahead() const {}
  /// Gives the memory of bytes() back; bytes that are touched later are read again. Any thread may read at the same
  /// time. Here it does nothing.
  virtual void drop() const {}

 protected:
  FileMap(FileMap&&) = default;
  FileMap& operator=(FileMap&&) = default;
  friend class FileHold;
  /// Where needs_hold(): makes bytes() readable until as many calls of release() have followed. Throws if it cannot.
  virtual void hold() const {}
  virtual void release() const noexcept {}

  std::filesystem::path path_;
  std::span<const uint8_t> bytes_;
  bool needs_hold_ = false;
};

/// Keeps the bytes of a map readable as long as it, or a copy of it, lives. Costs one comparison for a map that needs
/// none, and otherwise two atomic operations. Thread-safety: as a value.
class FileHold {
 public:
  FileHold() = default;
  explicit FileHold(const FileMap& map) : map_(map.needs_hold() ? &map : nullptr) {
    if (map_ != nullptr) map_->hold();
  }
  FileHold(const FileHold& other) : map_(other.map_) {
    if (map_ != nullptr) map_->hold();
  }
  FileHold(FileHold&& other) noexcept : map_(std::exchange(other.map_, nullptr)) {}
  FileHold& operator=(FileHold other) noexcept {
    std::swap(map_, other.map_);
    return *this;
  }
  ~FileHold() {
    if (map_ != nullptr) map_->release();
  }

 private:
  const FileMap* map_ = nullptr;  // null: nothing is held
};

/// What is known of a file before it is opened, as a manifest says.
struct FileFacts {
  uint64_t byte_count = 0;
  std::string xxh3;         // XXH3-128 of its bytes, 32 hex digits
  std::string sha256 = {};  // 64 hex digits; "" in manifests of earlier versions

  /// The stronger one of the sums that are known: what a copy of the file is known by.
  const std::string& sum() const { return sha256.empty() ? xxh3 : sha256; }
  const char* sum_name() const { return sha256.empty() ? "xxh3" : "sha256"; }

  bool operator==(const FileFacts&) const = default;
};

/// A file that will be read soon.
struct ExpectedFile {
  std::filesystem::path path;
  FileFacts facts;
};

/// An open file. Errors: io_error naming the file. Thread-safety: const members may be called from many threads.
class RandomAccessFile {
 public:
  explicit RandomAccessFile(std::filesystem::path path) : path_(std::move(path)) {}
  virtual ~RandomAccessFile() = default;
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  virtual uint64_t size() const = 0;
  /// Copies the bytes from `offset` on to `out`, and returns how many there were: fewer than `out` has room for only
  /// where the file ends.
  virtual size_t read(uint64_t offset, std::span<uint8_t> out) const = 0;
  /// The whole file. Unless a kind of files has something better, this is a copy in memory, made by one read().
  virtual std::unique_ptr<const FileMap> map() const;

  /// A copy of the whole file. Throws io_error when read() gives less than size().
  std::vector<uint8_t> contents() const;

 private:
  std::filesystem::path path_;
};

/// One kind of files. Its paths are SCHEME:FOLDER/FILE or SCHEME://HOST/FOLDER/FILE, and arrive here whole, as they
/// were typed. Errors: io_error naming the path. Thread-safety: const members may be called from many threads.
class Files {
 public:
  virtual ~Files() = default;
  virtual std::unique_ptr<const RandomAccessFile> open(const std::filesystem::path& path) const = 0;
  /// The bytes of a file of which these facts are known. What keeps copies knows them by the facts, and checks them.
  virtual std::unique_ptr<const FileMap> map(const std::filesystem::path& path, const FileFacts& /*facts*/) const {
    return open(path)->map();
  }
  /// The same file to read parts of, before the whole of it is there: read() fetches what it is asked for, and checks
  /// nothing. Null where the whole is at hand, as that of a local file is.
  virtual std::unique_ptr<const RandomAccessFile> open_parts(const std::filesystem::path& /*path*/,
                                                             const FileFacts& /*facts*/) const {
    return nullptr;
  }
  /// Says which files will be read, in any order. What comes from far fetches them ahead of time, as far as there is
  /// room for more.
  virtual void expect(const std::vector<ExpectedFile>& /*files*/) const {}
  /// How many files of `byte_count` bytes can be held at a time, where they need a hold.
  virtual uint64_t room(uint64_t /*byte_count*/) const { return UINT64_MAX; }
  /// Whether the next four work. Local files are written by other means.
  virtual bool takes_uploads() const { return false; }
  /// Makes the file at `path` a copy of the local `file`, of which these facts are known, in one step. What a process
  /// that is killed meanwhile would leave is noted in the local folder `notes`.
  virtual void upload(const std::filesystem::path& path, const std::filesystem::path& file, const FileFacts& facts,
                      const std::filesystem::path& notes) const;
  /// Removes what the uploads to `folder` have left of which there are notes. Requires that none is under way.
  virtual void clean_up(const std::filesystem::path& folder, const std::filesystem::path& notes) const;
  /// Whether upload() has made such a file.
  virtual bool is_uploaded(const std::filesystem::path& path, const FileFacts& facts) const;
  /// Removes a file; one that is not there is fine.
  virtual void remove(const std::filesystem::path& path) const;
  /// Throws when it cannot be found out.
  virtual bool exists(const std::filesystem::path& path) const = 0;
  /// The names in a folder, in any order. Nothing where a kind of files has no lists: shards are opened by the names in
  /// the manifest, and only the search for files that it does not name needs this.
  virtual std::vector<std::string> list(const std::filesystem::path& /*folder*/) const { return {}; }
};

/// The name is the scheme. The name of local files, which are mapped (local_files.cpp), is empty.
struct FilesKind {
  using Interface = Files;
  static constexpr const char* kName = "files";
  using Factory = std::function<std::unique_ptr<Files>(const Spec&)>;
};
using FilesRegistry = Registry<FilesKind>;

/// The files that `path` is one of. There is one object per scheme, made when it is first needed and never destroyed,
/// so that it can hold connections or a cache. Thread-safety: any thread.
const Files& files_of(const std::filesystem::path& path);

/// Whether `path` begins with no registered scheme.
bool is_local(const std::filesystem::path& path);
/// Throws config_error where `path`, the value of `flag`, is not local: only local files are written.
void check_local_output(const std::string& flag, const std::filesystem::path& path);

/// The folder `name` in the one that holds `folder`, worked out from the text alone: mem:digits/test is beside
/// mem:digits/train.
std::filesystem::path folder_beside(const std::filesystem::path& folder, const std::string& name);

/// The folder's own name, of a local one after all links; "" if it cannot be looked at.
std::string resolved_name(const std::filesystem::path& folder);

}  // namespace penstock
