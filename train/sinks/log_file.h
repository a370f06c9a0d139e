// LogFile: a text file that grows by whole lines, and goes on where a resumed run stands.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace penstock::detail {

/// Opens PATH for appending lines. The lines that an earlier run left are kept while `step_of(line)` is at most
/// `resumed_step`: what was recorded beyond the checkpoint will be recorded again. A torn last line is dropped.
/// resumed_step below 0: starts empty.
///
/// Errors: io_error naming the path. Every line is flushed, so that a killed run has lost none.
class LogFile {
 public:
  LogFile(std::filesystem::path path, int64_t resumed_step, const std::function<int64_t(const std::string&)>& step_of);
  void line(const std::string& text);
  bool is_empty() const { return is_empty_; }

 private:
  std::filesystem::path path_;
  std::ofstream file_;
  bool is_empty_ = true;
};

}  // namespace penstock::detail
