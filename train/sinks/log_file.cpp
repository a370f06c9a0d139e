// LogFile: keeps the lines up to the resumed step, then appends.
#include "train/sinks/log_file.h"

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

}  // namespace

LogFile::LogFile(std::filesystem::path path, int64_t resumed_step,
                 const std::function<int64_t(const std::string&)>& step_of)
    : path_(std::move(path)) {
  const std::string kept = resumed_step < 0 ? std::string() : kept_lines(path_, resumed_step, step_of);
  is_empty_ = kept.empty();
  file_.open(path_, std::ios::trunc);
  file_ << kept << std::flush;
  if (!file_) throw errno_error(path_.string(), "expected a file that can be written");
}

void LogFile::line(const std::string& text) {
  file_ << text << '\n' << std::flush;
  is_empty_ = false;
  if (!file_) throw errno_error(path_.string(), "expected room for one more line");
}

}  // namespace penstock::detail
