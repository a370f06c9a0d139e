// Files that are far away: https://, http://, s3:// and gs://. Shards lie in the cache of the node while they are read;
// manifests and other files are copied into memory.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/mutex.h"
#include "core/text.h"
#include "loader/cache/ahead.h"
#include "loader/cache/far_map.h"
#include "loader/cache/shard_cache.h"
#include "loader/far/hedged_transfer.h"
#include "loader/far/origin.h"
#include "loader/far/sim_link.h"
#include "loader/far/transfer.h"
#include "loader/far/upload.h"
#include "loader/files/files.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMostOfManifest = 100'000'000;  // as read_manifest()

using detail::FarMap, detail::FarShard, detail::ObjectChanged, detail::ObjectFacts, detail::Origin, detail::ShardCache,
    detail::TransferCallbacks, detail::TransferWish;

/// A file in memory.
class FetchedFile final : public RandomAccessFile {
 public:
  FetchedFile(const fs::path& path, std::vector<uint8_t> bytes) : RandomAccessFile(path), bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  size_t read(uint64_t offset, std::span<uint8_t> out) const override {
    if (offset >= bytes_.size()) return 0;
    const size_t count = std::min<uint64_t>(out.size(), bytes_.size() - offset);
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), count, out.begin());
    return count;
  }

 private:
  std::vector<uint8_t> bytes_;
};

/// Parts of a far shard, without the cache. Each read() is one request, or two where it is slow. Nothing is kept or
/// checked, but that all parts are of the same object. Errors: as transfer(); io_error where the object is another one
/// than at the first read(), and for a server that knows no ranges, which would send the whole object for each part.
class FarParts final : public RandomAccessFile {
 public:
  explicit FarParts(const FarShard& shard) : RandomAccessFile(shard.address), shard_(shard) {}
  uint64_t size() const override { return shard_.facts.byte_count; }
  size_t read(uint64_t offset, std::span<uint8_t> out) const override {
    // A service that is in trouble is not asked for what comes with the shard as well.
    constexpr int kMostAttempts = 3;
    const uint64_t end = std::min(size(), offset + out.size());
    if (offset >= end) return 0;
    TransferWish wish{
        .address = shard_.address, .begin = offset, .end = end, .byte_count = size(), .most_attempts = kMostAttempts};
    {
      const MutexLock lock(mutex_);
      wish.etag = etag_;
    }
    std::string etag;
    const TransferCallbacks callbacks{
        .sink = [&](uint64_t at, std::span<const uint8_t> bytes, const ObjectFacts& object) {
          if (!object.is_range)
            throw io_error(concat(shard_.address, ": came whole; expected the range that was asked for"));
          std::copy(bytes.begin(), bytes.end(), out.begin() + static_cast<ptrdiff_t>(at - offset));
          etag = object.etag;
        }};
    try {
      hedged_transfer(*shard_.origin, wish, callbacks, detail::range_times(), [] { return true; });
      const MutexLock lock(mutex_);
      etag_ = etag;
    } catch (const ObjectChanged& changed) {  // nothing is known to be corrupt: the shard may come as it should be
      throw io_error(changed.what());
    }
    return end - offset;
  }

 private:
  FarShard shard_;
  detail::Ahead::Parts keeps_back_;
  mutable Mutex mutex_;
  mutable std::string etag_ PENSTOCK_GUARDED_BY(mutex_);
};

class FarFiles final : public Files {
 public:
  FarFiles(std::unique_ptr<Origin> origin, bool takes_uploads)
      : origin_(std::move(origin)), takes_uploads_(takes_uploads) {}

  std::unique_ptr<const RandomAccessFile> open(const fs::path& path) const override {
    const uint64_t most = path.extension() == ".json" ? kMostOfManifest : UINT64_MAX;
    return std::make_unique<FetchedFile>(path, detail::transfer_whole(*origin_, path.string(), most));
  }

  std::unique_ptr<const FileMap> map(const fs::path& path, const FileFacts& facts) const override {
    if (facts.sum().empty()) return open(path)->map();
    return std::make_unique<FarMap>(shard_of(path, facts), ShardCache::instance());
  }

  std::unique_ptr<const RandomAccessFile> open_parts(const fs::path& path, const FileFacts& facts) const override {
    const FarShard shard = shard_of(path, facts);
    if (facts.sum().empty() || ShardCache::instance().has(shard)) return nullptr;
    return std::make_unique<FarParts>(shard);
  }

  void expect(const std::vector<ExpectedFile>& files) const override {
    std::vector<FarShard> shards;
    for (const auto& file : files)
      if (!file.facts.sum().empty()) shards.push_back(shard_of(file.path, file.facts));
    detail::Ahead::instance().expect(shards);
  }

  uint64_t room(uint64_t byte_count) const override { return ShardCache::instance().room(byte_count); }

  bool takes_uploads() const override { return takes_uploads_; }
  void upload(const fs::path& path, const fs::path& file, const FileFacts& facts,
              const fs::path& notes) const override {
    detail::upload(*origin_, path.string(), file, facts, notes);
  }
  void clean_up(const fs::path& folder, const fs::path& notes) const override {
    detail::abort_uploads(*origin_, folder.string(), notes);
  }
  bool is_uploaded(const fs::path& path, const FileFacts& facts) const override {
    return detail::is_uploaded(*origin_, path.string(), facts);
  }
  void remove(const fs::path& path) const override { detail::remove_object(*origin_, path.string()); }

  bool exists(const fs::path& path) const override { return detail::object_exists(*origin_, path.string()); }

 private:
  FarShard shard_of(const fs::path& path, const FileFacts& facts) const {
    return {path.string(), facts, origin_.get()};
  }

  std::unique_ptr<Origin> origin_;
  bool takes_uploads_;
};

const Registered<FilesKind> kHttps{"https", {}, "files of a web server", [](const Spec&) {
                                     return std::make_unique<FarFiles>(detail::make_plain_origin(), false);
                                   }};
const Registered<FilesKind> kHttp{"http", {}, "files of a web server, without encryption", [](const Spec&) {
                                    return std::make_unique<FarFiles>(detail::make_plain_origin(), false);
                                  }};
const Registered<FilesKind> kS3{"s3", {}, "objects of S3, or of a service that speaks its language", [](const Spec&) {
                                  return std::make_unique<FarFiles>(detail::make_s3_origin(), true);
                                }};
const Registered<FilesKind> kGoogle{"gs", {}, "objects of Google Cloud Storage", [](const Spec&) {
                                      return std::make_unique<FarFiles>(detail::make_google_origin(), true);
                                    }};
const Registered<FilesKind> kSim{
    "sim", {}, "local files over an emulated link, whose speed --sim-link says", [](const Spec&) {
      return std::make_unique<FarFiles>(detail::make_emulated_origin(), false);
    }};

}  // namespace
}  // namespace penstock
