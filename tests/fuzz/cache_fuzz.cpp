// The cache of the node: a marker, and the note at the end of a download, that somebody else has written.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "core/error.h"
#include "loader/cache/folder.h"
#include "loader/cache/progress.h"

namespace {

namespace fs = std::filesystem;
constexpr uint64_t kFuzzedBytes = 64;  // of the shard whose download is continued

/// A folder of this process, removed at its end.
class FuzzedFolder {
 public:
  FuzzedFolder() : path_(fs::temp_directory_path() / ("penstock-fuzz-" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~FuzzedFolder() { fs::remove_all(path_); }
  fs::path write(const std::string& name, const uint8_t* data, size_t size) const {
    std::ofstream(path_ / name, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<long>(size));
    return path_ / name;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  static const FuzzedFolder folder;
  const std::string name(32, 'a');
  const auto partial = folder.write(name + ".partial", data, size);
  {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(partial.c_str(), "rb"), &std::fclose);
    const auto progress = detail::read_progress(fileno(file.get()), kFuzzedBytes);
    if (progress && (progress->done > kFuzzedBytes ||
                     std::find(progress->etag, std::end(progress->etag), '\0') == std::end(progress->etag)))
      std::abort();
  }
  folder.write("penstock-cache", data, size);
  try {
    const detail::CacheFolder looked(folder.path());
    if (looked.list().size() != 1) std::abort();
    looked.room(1000);
  } catch (const Error&) {
  }
  try {
    detail::CacheFolder used(folder.path(), "1mb");
    const auto place =
        used.take(name, kFuzzedBytes, detail::CacheFolder::Evicts::kAny, false, [](const std::string&) {});
    if (place.kind != detail::CacheFolder::Place::Kind::kTaken) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
