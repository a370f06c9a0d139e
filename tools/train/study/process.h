// Process: a child of this one, from its start to its end.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

struct ProcessEnd {
  int exit_code = 0;    ///< 128 + n when signal n ended it, 127 when there is no such program.
  int stop_signal = 0;  ///< SIGINT or SIGTERM, when this process got it meanwhile; it was passed on.
};

/// Runs words[0], looked for in PATH when it has no slash, with its output in two files, and waits. Errors: io_error
/// when it cannot be started for another reason. Thread-safety: for a process with one thread.
ProcessEnd run_process(const std::vector<std::string>& words, const std::filesystem::path& output,
                       const std::filesystem::path& errors);

/// Of a file that a process wrote: its last line that is not blank, or "".
std::string last_line(const std::filesystem::path& path);

}  // namespace penstock
