// Files for results: AtomicFile, or straight into a device or a pipe.
#include "tools/out_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/files/files.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// Whether `path` leads to a descriptor of a process, as /dev/stdout does by /proc/self/fd/1.
bool is_descriptor(fs::path path) {
  constexpr int kMaxLinks = 40;  // the kernel follows no more
  for (int i = 0; i < kMaxLinks && fs::is_symlink(path); ++i) {
    const fs::path folder = fs::canonical(fs::absolute(path).parent_path());
    if (folder.native().starts_with("/proc/")) return true;
    path = folder / fs::read_symlink(path);
  }
  return false;
}

/// Whether `path` is a device, a pipe or a descriptor. A rename would replace it by a file, and opening a pipe would
/// block until it has a reader.
bool is_special(const fs::path& path) {
  return (fs::exists(path) && !fs::is_regular_file(path)) || is_descriptor(path);
}

/// Where a file has its name in the end, after all links.
fs::path target_of(const fs::path& path) { return fs::weakly_canonical(fs::absolute(path)); }

bool is_inside(const fs::path& folder, const fs::path& path) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

/// The split folders of the data set, after all links: the one that was opened, and those beside it. None where the
/// data set is not of local files.
std::vector<fs::path> split_folders_of(const Dataset& dataset) {
  if (!is_local(dataset.folder())) return {};
  const fs::path own = fs::canonical(dataset.folder());
  std::vector<fs::path> folders{own};
  for (const auto& place : {own.parent_path(), fs::absolute(dataset.folder()).lexically_normal().parent_path()}) {
    for (const auto& name : {"train", "test", "all"}) {
      std::error_code failure;  // nothing can be written into a folder that cannot be looked at
      const fs::path folder = fs::canonical(place / name, failure);
      if (!failure && fs::exists(folder / "manifest.json", failure)) folders.push_back(folder);
    }
  }
  return folders;
}

template <class Body>
void with_flag(const std::string& flag, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    throw Error(error.kind(), concat(flag, ": ", error.what()));
  }
}

void write_special(const std::string& path, std::string_view bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) throw errno_error(path, "expected a file to write to");
  errno = 0;
  const bool is_taken = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const int failure = errno;
  if (std::fclose(file) == 0 && is_taken) return;
  if (!is_taken) errno = failure;
  throw errno_error(path, "expected a file to write to");
}

}  // namespace

void check_out_file(const std::string& flag, const std::string& path, const Dataset& dataset) {
  if (fs::is_directory(path)) throw io_error(concat(flag, ": ", path, " is a folder; expected a file"));
  if (is_special(path)) return;
  const fs::path target = target_of(path);
  for (const auto& folder : split_folders_of(dataset)) {
    if (is_inside(folder, target)) {
      throw config_error(
          concat(flag, ": ", path, " lies in the data set's folder ", folder.string(), "; expected a file elsewhere"));
    }
  }
  with_flag(flag, [&] { const AtomicFile removed_at_once(target); });
}

void write_out_file(const std::string& flag, const std::string& path, std::string_view bytes) {
  with_flag(flag, [&] {
    if (is_special(path)) return write_special(path, bytes);
    AtomicFile file(target_of(path));
    file.write(bytes);
    file.commit();
  });
}

}  // namespace penstock
