// Process: runs a child process and waits for its end.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

struct ProcessEnd {
  int exit_code = 0;    ///< 128 + n if signal n ended it, 127 if there is no such program.
  int stop_signal = 0;  ///< The first stop signal that this process got meanwhile and passed on; 0: none.
};

/// Runs words[0], which is looked for in PATH if it has no slash, with stdout and stderr in two files, and waits for
/// it. Errors: io_error if it exists but cannot be started. Thread-safety: only for a process with one thread.
ProcessEnd run_process(const std::vector<std::string>& words, const std::filesystem::path& output,
                       const std::filesystem::path& errors);

/// The last line of a file that is not blank, or "".
std::string last_line(const std::filesystem::path& path);

}  // namespace penstock
