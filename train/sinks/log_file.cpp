// LogFile: keeps the lines up to the resumed step, then appends.
#include "train/sinks/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

std::string kept_lines(const std::filesystem::path& path, int64_t resumed_step,
                       const std::function<int64_t(const std::string&)>& step_of) {
  std::ifstream file(path);
  std::stringstream content;
  if (file) content << file.rdbuf();
  std::string kept, line;
  while (std::getline(content, line))
    if (!content.eof() && step_of(line) <= resumed_step) kept += line + "\n";
  return kept;
}

void write_all(int file, const std::string& bytes, const std::string& path) {
  for (size_t done = 0; done < bytes.size();) {
    const auto count = write(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw errno_error(path, "expected room for one more record");
    done += static_cast<size_t>(count);
  }
}

int open_file(const std::filesystem::path& path, int flags) {
  const int file = open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_CREAT | flags, 0644);
  if (file < 0) throw errno_error(path.string(), "expected a file that can be written");
  return file;
}

std::string content_of(int file) {
  std::string content;
  std::array<char, 1 << 16> block;
  ssize_t count = 0;
  while ((count = pread(file, block.data(), block.size(), static_cast<off_t>(content.size()))) > 0)
    content.append(block.data(), static_cast<size_t>(count));
  return content;
}

}  // namespace

AppendedFile::AppendedFile(std::filesystem::path path, const std::string& content)
    : path_(std::move(path)), file_(open_file(path_, O_TRUNC)) {
  write_all(file_, content, path_.string());
}

AppendedFile::~AppendedFile() { close(file_); }

void AppendedFile::append(const std::string& bytes) {
  restore_if_removed();
  write_all(file_, bytes, path_.string());
}

/// If the file was removed, its descriptor can still read what was in it, and that is written anew. If another file was
/// put in its place, that file grows from now on; nothing is copied.
void AppendedFile::restore_if_removed() {
  struct stat ours {
  }, there{};
  const bool is_there = stat(path_.c_str(), &there) == 0;
  if (is_there && fstat(file_, &ours) == 0 && ours.st_ino == there.st_ino && ours.st_dev == there.st_dev) return;
  const int file = open_file(path_, 0);
  if (!is_there) write_all(file, content_of(file_), path_.string());
  close(std::exchange(file_, file));
}

LogFile::LogFile(const std::filesystem::path& path, int64_t resumed_step,
                 const std::function<int64_t(const std::string&)>& step_of)
    : LogFile(path, resumed_step < 0 ? std::string() : kept_lines(path, resumed_step, step_of)) {}

LogFile::LogFile(const std::filesystem::path& path, const std::string& kept)
    : is_empty_(kept.empty()), file_(path, kept) {}

void LogFile::line(const std::string& text) {
  file_.append(text + "\n");
  is_empty_ = false;
}

}  // namespace penstock::detail
