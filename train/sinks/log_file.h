// LogFile: a text file that grows by whole lines, and that a resumed run continues at its step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace penstock::detail {

/// A file to which a run appends. Nothing is buffered in memory, so a killed run loses none of it. If somebody removes
/// the file meanwhile, it is written anew with its whole content. No link is followed.
///
/// Errors: io_error that names the path.
class AppendedFile {
 public:
  /// Makes or overwrites the file; it then holds `content`.
  AppendedFile(std::filesystem::path path, const std::string& content);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;
  void append(const std::string& bytes);

 private:
  void restore_if_removed();
  std::filesystem::path path_;
  int file_ = -1;
};

/// A file to which a run appends lines. Lines of an earlier run are kept if `step_of(line)` is at most `resumed_step`;
/// later ones will be recorded again. An incomplete last line is dropped. If `resumed_step` is negative, the file
/// starts empty. Errors: io_error that names the path, also for what is no regular file.
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
