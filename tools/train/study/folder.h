// The folder of a study: the command it belongs to, a lock against other writers, and which runs are finished.
#pragma once

#include <filesystem>

#include "tools/train/study/options.h"

namespace penstock {

/// A study's folder, locked from its first run to its last file.
class StudyFolder {
 public:
  /// Makes OUT with study.json in it, or continues the study in OUT if that has the same arguments. Throws config_error
  /// if OUT holds the study of another command or other files, or if another process is working on it; throws io_error.
  explicit StudyFolder(const StudyOptions& options);
  ~StudyFolder();
  StudyFolder(const StudyFolder&) = delete;
  StudyFolder& operator=(const StudyFolder&) = delete;

  std::filesystem::path run(const std::string& name) const { return out_ / "runs" / name; }
  /// A run is finished when its summary.json exists: that is the last file it writes, and it appears whole.
  static bool is_finished(const std::filesystem::path& out, const std::string& name);

 private:
  std::filesystem::path out_;
  int lock_;
};

}  // namespace penstock
