// Problems: collects lines up to a limit, and counts all of them.
#include "loader/shards/problems.h"

#include "core/text.h"

namespace penstock {

void Problems::add(const std::string& line, ErrorKind kind) {
  const bool is_io = kind == ErrorKind::kIo;
  if (lines.size() < kMaxLines && !(is_io && io_count > 0))
    lines.push_back(line);
  else
    ++unlisted_count;
  ++count;
  io_count += is_io;
}

void Problems::append(const Problems& more, const std::string& name) {
  lines.insert(lines.end(), more.lines.begin(), more.lines.end());
  if (more.unlisted_count > 0) lines.push_back(concat(name, ": ... and ", more.unlisted_count, " more"));
  count += more.count;
  io_count += more.io_count;
}

}  // namespace penstock
