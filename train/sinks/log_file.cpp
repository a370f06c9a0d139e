// LogFile: keeps the lines up to the resumed step, then appends.
#include "train/sinks/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>
#include <utility>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/regular_file.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

std::string kept_lines(const std::filesystem::path& path, int64_t resumed_step,
                       const std::function<int64_t(const std::string&)>& step_of) {
  std::error_code ignored;  // a link that leads nowhere is replaced
  std::istringstream content(std::filesystem::exists(path, ignored) ? read_text(path, kMostOfLog) : std::string());
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

bool is_regular(const struct stat& status) { return S_ISREG(status.st_mode); }

/// Opens a regular file, and neither what a link leads to nor a pipe, which would wait for a reader.
int open_to_append(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) throw errno_error(path.string(), "expected a file that can be written");
  struct stat status {};
  if (fstat(file, &status) == 0 && is_regular(status)) return file;
  close(file);
  throw io_error(concat(path.string(), ": not a regular file; expected one"));
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

// A rename puts the file in place of what was there, a link or a pipe as well.
AppendedFile::AppendedFile(std::filesystem::path path, const std::string& content) : path_(std::move(path)) {
  write_text(path_, content);
  file_ = open_to_append(path_);
}

AppendedFile::~AppendedFile() { close(file_); }

void AppendedFile::append(const std::string& bytes) {
  restore_if_removed();
  write_all(file_, bytes, path_.string());
}

/// If the file was removed, its descriptor can still read what was in it, and that is written anew, also in place of a
/// link. If another file was put in its place, that file grows from now on; nothing is copied.
void AppendedFile::restore_if_removed() {
  struct stat ours {
  }, there{};
  const bool is_there = lstat(path_.c_str(), &there) == 0 && is_regular(there);
  if (is_there && fstat(file_, &ours) == 0 && ours.st_ino == there.st_ino && ours.st_dev == there.st_dev) return;
  if (!is_there) write_text(path_, content_of(file_));
  const int file = open_to_append(path_);
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
