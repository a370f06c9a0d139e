// Likely source: recognises a source by the names of its files.
#include "train/feed/likely_source.h"

#include "core/text.h"
#include "loader/codecs/codec.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 3;     // enough for DIR/<split>/<class>/<picture> and one folder more
constexpr int kMaxNames = 2000;  // about 10 ms if the folder is not in the page cache

std::string kind_of(const fs::path& file) {
  const std::string name = file.filename().string();
  if (name.starts_with("train-images") || name.starts_with("t10k-images")) return "mnist";
  if (name == "data_batch_1.bin" || name == "test_batch.bin") return "cifar10";
  return has_picture_extension(file) ? "image-folder" : "";
}

}  // namespace

std::string likely_source(const fs::path& folder) {
  std::error_code failure;  // a folder that cannot be read gives no suggestion
  fs::recursive_directory_iterator entries(folder, fs::directory_options::skip_permission_denied, failure);
  for (int count = 0; !failure && entries != fs::recursive_directory_iterator() && count < kMaxNames; ++count) {
    if (entries.depth() >= kMaxDepth) entries.disable_recursion_pending();
    const std::string kind = entries->is_directory(failure) ? "" : kind_of(entries->path());
    // mnist and cifar10 take the folder that their files are in; image-folder takes a folder above its pictures.
    if (kind == "image-folder") return concat(kind, ":", folder.string());
    if (!kind.empty()) return concat(kind, ":", entries->path().parent_path().string());
    entries.increment(failure);
  }
  return "";
}

}  // namespace penstock
