// Problems: lines up to a limit, and their number.
#include "loader/problems.h"

#include "core/text.h"

namespace penstock {

void Problems::add(const std::string& line, ErrorKind kind) {
  if (lines.size() < kMaxLines)
    lines.push_back(line);
  else
    ++unlisted_count;
  ++count;
  is_files_only &= kind == ErrorKind::kIo;
}

void Problems::append(const Problems& more, const std::string& name) {
  lines.insert(lines.end(), more.lines.begin(), more.lines.end());
  if (more.unlisted_count > 0) lines.push_back(concat(name, ": ... and ", more.unlisted_count, " more"));
  count += more.count;
  is_files_only &= more.is_files_only;
}

}  // namespace penstock
