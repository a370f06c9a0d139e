// Process: posix_spawn(), and a wait that also passes signals on.
#include "tools/train/study/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sstream>

#include "core/error.h"
#include "core/regular_file.h"
#include "core/text.h"
#include "train/launch/stop_signals.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// While it lives, stop signals and SIGCHLD are blocked until next() takes them, so that none is lost between a check
/// and a wait.
class HeldSignals {
 public:
  HeldSignals() {
    signal(SIGCHLD, SIG_DFL);  // some programs start others with SIGCHLD ignored, and it would never come
    sigemptyset(&held_);
    sigaddset(&held_, SIGCHLD);
    for (const int signal : kStopSignals)
      if (is_heeded(signal)) sigaddset(&held_, signal);
    sigprocmask(SIG_BLOCK, &held_, &before_);
  }
  ~HeldSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  int next() const {
    int signal = 0;
    sigwait(&held_, &signal);
    return signal;
  }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t held_{}, before_{};
};

/// Starts the child in a process group of its own: Ctrl-C in the terminal then reaches only this process, which passes
/// it on.
int spawn(pid_t& pid, std::vector<std::string> words, const std::filesystem::path& output,
          const std::filesystem::path& errors, const sigset_t& signals) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW;
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), kWrite, 0666);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, errors.c_str(), kWrite, 0666);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &signals);
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int failure = posix_spawnp(&pid, pointers[0], &files, &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return failure;
}

}  // namespace

ProcessEnd run_process(const std::vector<std::string>& words, const std::filesystem::path& output,
                       const std::filesystem::path& errors) {
  std::error_code ignored;  // the start reports it
  for (const auto& path : {output, errors})
    if (path != "/dev/null") fs::remove(path, ignored);  // it may be a link or a pipe
  const HeldSignals signals;
  ProcessEnd end;
  pid_t pid = 0;
  const int failure = spawn(pid, words, output, errors, signals.before());
  if (failure == ENOENT) return {.exit_code = 127};
  if (failure != 0)
    throw io_error(concat(words[0], ": ", std::strerror(failure),
                          "; expected a program that can be started with its output in ", output.string()));
  for (int status = 0;;) {
    const int signal = signals.next();
    if (signal != SIGCHLD) {
      if (end.stop_signal == 0) end.stop_signal = signal;
      kill(pid, signal);
    } else if (waitpid(pid, &status, WNOHANG) == pid) {
      end.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      return end;
    }
  }
}

std::string last_line(const std::filesystem::path& path) {
  std::istringstream file(read_text(path, kMostOfLog));
  std::string last;
  for (std::string line; std::getline(file, line);)
    if (line.find_first_not_of(" \t") != std::string::npos) last = line;
  return last;
}

}  // namespace penstock
