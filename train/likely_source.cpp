// Likely source: by the names of files.
#include "train/likely_source.h"

#include "core/text.h"
#include "loader/codecs/codec.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 3;     // DIR/<split>/<class>/<picture>, and one folder more
constexpr int kMaxNames = 2000;  // about 10 ms from a disk that is not cached

std::string kind_of(const fs::path& file) {
  const std::string name = file.filename().string();
  if (name.starts_with("train-images") || name.starts_with("t10k-images")) return "mnist";
  if (name == "data_batch_1.bin" || name == "test_batch.bin") return "cifar10";
  return has_picture_extension(file) ? "image-folder" : "";
}

}  // namespace

std::string likely_source(const fs::path& folder) {
  std::error_code failure;  // what cannot be looked at suggests nothing
  fs::recursive_directory_iterator entries(folder, fs::directory_options::skip_permission_denied, failure);
  for (int count = 0; !failure && entries != fs::recursive_directory_iterator() && count < kMaxNames; ++count) {
    if (entries.depth() >= kMaxDepth) entries.disable_recursion_pending();
    const std::string kind = entries->is_directory(failure) ? "" : kind_of(entries->path());
    // Files of a data set in one file lie in its folder; pictures may lie below.
    if (kind == "image-folder") return concat(kind, ":", folder.string());
    if (!kind.empty()) return concat(kind, ":", entries->path().parent_path().string());
    entries.increment(failure);
  }
  return "";
}

}  // namespace penstock
