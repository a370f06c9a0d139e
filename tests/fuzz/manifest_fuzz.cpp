// A manifest from an untrusted source.
#include <filesystem>

#include "loader/shards/dataset.h"
#include "tests/fuzz/fuzz_pictures.h"

namespace {

namespace fs = std::filesystem;

/// A folder whose manifest.json is a file in memory, which gives 8 times as many inputs per second as a file on a disk.
class ManifestFolder {
 public:
  ManifestFolder() { fs::create_directories(path_); }
  ~ManifestFolder() { fs::remove_all(path_); }
  const fs::path& with(const penstock::fuzzing::MemoryFile& manifest) const {
    const fs::path link = path_ / "manifest.json";
    fs::remove(link);
    fs::create_symlink(manifest.path(), link);
    return path_;
  }

 private:
  const fs::path path_ = fs::temp_directory_path() / ("penstock-fuzz-" + std::to_string(getpid()));
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  static const ManifestFolder folder;
  const fuzzing::MemoryFile file({data, size});
  try {
    read_manifest(folder.with(file));
  } catch (const Error&) {
  }
  return 0;
}
