// The folder of a study: which command it is of, who writes into it, which of its runs are finished.
#pragma once

#include <filesystem>

#include "tools/train/study/options.h"

namespace penstock {

/// A study's folder, locked from its first run to its last file.
class StudyFolder {
 public:
  /// Makes OUT, with study.json in it, or goes on with what an unfinished study of the same arguments left. Throws
  /// config_error when OUT holds a study of another command or somebody's files, or another study is at work in it;
  /// io_error.
  explicit StudyFolder(const StudyOptions& options);
  ~StudyFolder();
  StudyFolder(const StudyFolder&) = delete;
  StudyFolder& operator=(const StudyFolder&) = delete;

  std::filesystem::path run(const std::string& name) const { return out_ / "runs" / name; }
  /// A run's summary.json is its last file and appears whole.
  bool is_finished(const std::string& name) const;

 private:
  std::filesystem::path out_;
  int lock_;
};

}  // namespace penstock
