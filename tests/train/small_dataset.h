// A small data set of digits in a temporary folder, packed once a process and removed at its end.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "core/text.h"
#include "loader/dataset.h"
#include "loader/pack.h"

namespace penstock {

/// A folder of this test process, gone when it ends.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / concat("penstock-", name, "-", getpid())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// 130 grey pictures of 20 x 20 in 5 shards.
inline std::shared_ptr<const Dataset> small_dataset() {
  static const TemporaryFolder folder("small-dataset");
  static const auto dataset = [] {
    pack({.source = "digits(count=130,size=20)",
          .input = {},
          .split = "train",
          .output = folder.path(),
          .shard_count = 5});
    return Dataset::open(folder.path());
  }();
  return dataset;
}

}  // namespace penstock
