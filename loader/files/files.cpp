// Files: the scheme of a path, and the object that stands for it.
#include "loader/files/files.h"

#include <map>

#include "core/error.h"
#include "core/mutex.h"
#include "core/text.h"

namespace penstock {
namespace {

/// A copy of a file in memory.
class CopiedFile final : public FileMap {
 public:
  CopiedFile(std::filesystem::path path, std::vector<uint8_t> bytes)
      : FileMap(std::move(path)), owned_(std::move(bytes)) {
    bytes_ = owned_;
  }

 private:
  std::vector<uint8_t> owned_;
};

/// "" for a path that begins with no registered scheme, as that of a local folder with a colon in its name.
std::string scheme_of(const std::string& path) {
  const std::string scheme = path.substr(0, path.find(':'));
  return scheme.size() < path.size() && FilesRegistry::entries().contains(scheme) ? scheme : "";
}

/// What stands before the folders of a path: "mem:", "https://host", or nothing.
std::string root_of(const std::string& path) {
  const std::string scheme = scheme_of(path);
  if (scheme.empty()) return "";
  const size_t end = scheme.size() + 1;
  return path.substr(0, path.compare(end, 2, "//") == 0 ? path.find('/', end + 2) : end);
}

}  // namespace

std::vector<uint8_t> RandomAccessFile::contents() const {
  std::vector<uint8_t> bytes(size());
  const size_t count = read(0, bytes);
  if (count == bytes.size()) return bytes;
  throw io_error(concat(path_.string(), ": ", count, " bytes were read; expected its ", bytes.size()));
}

std::unique_ptr<const FileMap> RandomAccessFile::map() const { return std::make_unique<CopiedFile>(path_, contents()); }

void Files::upload(const std::filesystem::path& path, const std::filesystem::path&, const FileFacts&,
                   const std::filesystem::path&) const {
  throw bug_error(concat(path.string(), ": such files are only read; expected takes_uploads() to be asked"));
}
bool Files::is_uploaded(const std::filesystem::path&, const FileFacts&) const { return false; }
void Files::remove(const std::filesystem::path& path) const { upload(path, {}, {}, {}); }
void Files::clean_up(const std::filesystem::path& folder, const std::filesystem::path&) const {
  upload(folder, {}, {}, {});
}

const Files& files_of(const std::filesystem::path& path) {
  // Never destroyed, because the last threads of a program may still read.
  static auto& mutex = *new Mutex;
  static auto& made PENSTOCK_GUARDED_BY(mutex) = *new std::map<std::string, std::unique_ptr<const Files>>;
  const std::string scheme = scheme_of(path.string());
  const MutexLock lock(mutex);
  auto& files = made[scheme];
  if (!files) files = FilesRegistry::make(Spec(FilesKind::kName, scheme, {}));
  return *files;
}

bool is_local(const std::filesystem::path& path) { return scheme_of(path.string()).empty(); }

void check_local_output(const std::string& flag, const std::filesystem::path& path) {
  if (is_local(path)) return;
  throw config_error(concat(flag, ": ", path.string(), " is an address; expected a local folder or file, which can be ",
                            "copied there afterwards (docs/FAR.md)"));
}

std::filesystem::path folder_beside(const std::filesystem::path& folder, const std::string& name) {
  const std::string text = folder.string(), root = root_of(text);
  const auto below = std::filesystem::path(text.substr(root.size())) / ".." / name;
  return root + below.lexically_normal().string();
}

std::string resolved_name(const std::filesystem::path& folder) {
  std::error_code ignored;  // a folder that cannot be looked at is nobody's
  return (is_local(folder) ? std::filesystem::canonical(folder, ignored) : folder).filename().string();
}

}  // namespace penstock
