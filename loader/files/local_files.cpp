// Files of this machine, mapped into memory: those of every path that begins with no scheme.
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "core/error.h"
#include "core/regular_file.h"
#include "core/text.h"
#include "loader/files/files.h"
#include "loader/files/mapped_file.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class LocalFile final : public RandomAccessFile {
 public:
  explicit LocalFile(const fs::path& path) : RandomAccessFile(path), file_(path) {}
  uint64_t size() const override { return static_cast<uint64_t>(file_.status().st_size); }

  size_t read(uint64_t offset, std::span<uint8_t> out) const override {
    size_t filled = 0;
    while (filled < out.size()) {
      const ssize_t count =
          pread(file_.descriptor(), &out[filled], out.size() - filled, static_cast<off_t>(offset + filled));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw errno_error(path().string(), concat("expected to read ", out.size(), " bytes"));
      if (count == 0) break;
      filled += static_cast<size_t>(count);
    }
    return filled;
  }

  std::unique_ptr<const FileMap> map() const override { return std::make_unique<detail::MappedFile>(path(), file_); }

 private:
  RegularFile file_;
};

class LocalFiles final : public Files {
 public:
  std::unique_ptr<const RandomAccessFile> open(const fs::path& path) const override {
    return std::make_unique<LocalFile>(path);
  }

  bool exists(const fs::path& path) const override {
    std::error_code failure;
    const bool is_there = fs::exists(path, failure);
    if (!failure) return is_there;
    throw io_error(concat(path.string(), ": ", failure.message(), "; expected a folder that can be read"));
  }

  std::vector<std::string> list(const fs::path& folder) const override {
    std::vector<std::string> names;
    std::error_code failure;
    for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure))
      names.push_back(entry->path().filename().string());
    if (!failure) return names;
    throw io_error(concat(folder.string(), ": ", failure.message(), "; expected a folder that can be read"));
  }
};

const Registered<FilesKind> kLocalFiles{
    "", {}, "files of this machine, mapped into memory", [](const Spec&) { return std::make_unique<LocalFiles>(); }};

}  // namespace
}  // namespace penstock
