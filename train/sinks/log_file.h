// LogFile: a text file that grows by whole lines, and goes on where a resumed run stands.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace penstock::detail {

/// A file that a run appends to, with nothing kept back in memory: a killed run has lost none of it. When somebody
/// removes it meanwhile it is written anew, with all that stood in it.
///
/// Errors: io_error naming the path.
class AppendedFile {
 public:
  /// The file holds `content` and nothing else.
  AppendedFile(std::filesystem::path path, const std::string& content);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;
  void append(const std::string& bytes);

 private:
  void restore_if_removed();
  std::filesystem::path path_;
  int file_;
};

/// Opens PATH for appending lines. The lines that an earlier run left are kept while `step_of(line)` is at most
/// `resumed_step`: what was recorded beyond the checkpoint will be recorded again. A torn last line is dropped.
/// resumed_step below 0: starts empty. Errors: io_error naming the path.
class LogFile {
 public:
  LogFile(const std::filesystem::path& path, int64_t resumed_step,
          const std::function<int64_t(const std::string&)>& step_of);
  void line(const std::string& text);
  bool is_empty() const { return is_empty_; }

 private:
  LogFile(const std::filesystem::path& path, const std::string& kept);
  bool is_empty_;
  AppendedFile file_;
};

}  // namespace penstock::detail
