// launch: starts ranks as child processes and waits until the last one has ended.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "train/comm/address.h"
#include "train/launch.h"
#include "train/launch_activity.h"
#include "train/stop_signals.h"

namespace penstock {
namespace {

constexpr double kEchoGraceMs = 5'000;   // after a device error, time for its cause to show at another rank
constexpr double kTermGraceMs = 10'000;  // from SIGTERM to SIGKILL, when a rank has failed
constexpr double kStopGraceMs = 30'000;  // from the first rank's end to SIGKILL: time for the others to save
constexpr double kStuckMs = 5'000;       // after a stop signal, ranks that do nothing for this long are killed

int signal_pipe_in = -1;  // a signal handler can reach only global variables

void write_signal(int signal) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const auto written = write(signal_pipe_in, &byte, 1);
  errno = saved;
}

/// While it lives, stop signals and SIGCHLD arrive as bytes in a pipe, no matter to which thread the kernel delivers
/// them.
class SignalPipe {
 public:
  SignalPipe() {
    if (pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) != 0)
      throw errno_error("launch: pipe", "expected free descriptors");
    signal_pipe_in = ends_[1];
    struct sigaction action {};
    action.sa_handler = write_signal;
    action.sa_flags = SA_RESTART;
    for (size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], nullptr, &previous_[i]);
      if (is_heeded(kSignals[i])) sigaction(kSignals[i], &action, nullptr);
    }
  }
  ~SignalPipe() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous_[i], nullptr);
    for (const int end : ends_) close(end);
  }
  int descriptor() const { return ends_[0]; }

  static constexpr std::array<int, 4> kSignals{SIGINT, SIGTERM, SIGHUP, SIGCHLD};
  static_assert(kSignals.size() == kStopSignals.size() + 1);

 private:
  std::array<int, 2> ends_{};
  std::array<struct sigaction, 4> previous_{};
};

struct Child {
  int rank = 0;
  pid_t pid = 0;
  int errors = -1;      // our end of the pipe from its stderr; -1 after that was closed
  std::string partial;  // the begin of a line that has not ended
  std::string last_line;
  bool is_running = true;
  int status = 0;                // as waitpid() gives it
  bool has_own_failure = false;  // it failed, and not because of a stop signal, this launcher or another rank
  detail::Activity activity;     // what it was at the last look after a stop signal
};

void write_stderr(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const auto count = write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (count < 0 && errno != EINTR) return;
    if (count > 0) done += static_cast<size_t>(count);
  }
}

std::vector<std::string> environment_of(int rank, int count, int port) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (!text.starts_with("TORCHELASTIC_")) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(rank);
  variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = std::to_string(count);
  variables["MASTER_ADDR"] = "127.0.0.1";
  variables["MASTER_PORT"] = std::to_string(port);
  variables["PENSTOCK_PARENT"] = std::to_string(getpid());
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(concat(name, "=", value));
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (auto& string : strings) list.push_back(string.data());
  list.push_back(nullptr);
  return list;
}

/// Starts a rank in a process group of its own: Ctrl-C in the terminal then reaches only the parent, which passes it on
/// once.
Child spawn_rank(int rank, int count, int port, std::vector<std::string> arguments) {
  std::error_code error;
  std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (!std::filesystem::exists(program))
    program = "/proc/self/exe";  // the program was replaced or removed since it started
  arguments.insert(arguments.begin(), program);
  auto entries = environment_of(rank, count, port);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw errno_error("launch: pipe", "expected free descriptors");

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  Child child{.rank = rank,
              .pid = 0,
              .errors = ends[0],
              .partial = {},
              .last_line = {},
              .is_running = true,
              .status = 0,
              .activity = {}};
  const int code = posix_spawn(&child.pid, program.c_str(), &files, &attributes, pointers(arguments).data(),
                               pointers(entries).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  close(ends[1]);
  if (code == 0) return child;
  close(ends[0]);
  throw io_error(concat("launch: ", program, ": ", std::strerror(code),
                        "; expected a program that can be started as rank ", rank));
}

class Ranks {
 public:
  void start(int count, const std::vector<std::string>& arguments) {
    children_.reserve(static_cast<size_t>(count));
    // Rank 0 will listen at this port in a moment. If another process takes it before, rank 0 reports that.
    const int socket = detail::listen_at(detail::resolve("127.0.0.1").front(), 0);
    const int port = detail::port_of(socket);
    close(socket);
    for (int rank = 0; rank < count; ++rank) children_.push_back(spawn_rank(rank, count, port, arguments));
  }
  /// Kills the ranks that still run, which are there only after an exception.
  ~Ranks() {
    signal_all(SIGKILL);
    for (auto& child : children_) {
      if (child.is_running) waitpid(child.pid, nullptr, 0);
      if (child.errors >= 0) close(child.errors);
    }
  }

  int wait_for_all() {
    while (running_count() > 0) {
      wait_for_news();
      handle_signals();
      handle_ends();
      handle_stuck();
      handle_deadlines();
    }
    for (auto& child : children_) read_errors(child);
    return conclude();
  }

 private:
  int64_t running_count() const {
    return std::count_if(children_.begin(), children_.end(), [](const Child& child) { return child.is_running; });
  }

  void signal_all(int signal) {
    for (const auto& child : children_)
      if (child.is_running) kill(child.pid, signal);
  }

  void wait_for_news() {
    std::vector<pollfd> polled{{signals_.descriptor(), POLLIN, 0}};
    for (const auto& child : children_) polled.push_back({child.errors, POLLIN, 0});  // poll() ignores -1
    double left_ms = -1;
    for (const int64_t due_ns : {deadline_ns_, next_look_ns_}) {
      const double until_ms = std::max(0.0, -ms_since(due_ns)) + 1;
      if (due_ns != 0 && (left_ms < 0 || until_ms < left_ms)) left_ms = until_ms;
    }
    poll(polled.data(), polled.size(), static_cast<int>(left_ms));
    for (size_t i = 0; i < children_.size(); ++i)
      if (polled[i + 1].revents != 0) read_errors(children_[i]);
  }

  /// Passes whole lines on. It reads what is there and does not block, because a grandchild may keep the pipe open.
  void read_errors(Child& child) {
    std::array<char, 4096> buffer;
    pollfd polled{child.errors, POLLIN, 0};
    while (child.errors >= 0 && poll(&polled, 1, 0) > 0) {
      const auto count = read(child.errors, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        close(child.errors);
        child.errors = -1;
        if (!child.partial.empty()) pass_on(child, std::exchange(child.partial, {}));
        return;
      }
      child.partial.append(buffer.data(), static_cast<size_t>(count));
      for (size_t end; (end = child.partial.find('\n')) != std::string::npos; child.partial.erase(0, end + 1))
        pass_on(child, child.partial.substr(0, end));
    }
  }

  void pass_on(Child& child, const std::string& line) {
    if (!line.empty()) child.last_line = line;
    last_written_ = concat("[rank ", child.rank, "] ", line);
    write_stderr(last_written_ + "\n");
  }

  void handle_signals() {
    unsigned char signal = 0;
    while (read(signals_.descriptor(), &signal, 1) == 1) {
      if (signal == SIGCHLD) continue;
      if (stop_signal_ == 0) {
        stop_signal_ = signal;
        stopped_ns_ = now_ns();
        signal_all(signal);
        look();
      } else if (ms_since(stopped_ns_) >= kSecondSignalMs) {
        give_up("a second signal came");
      }
    }
  }

  void look() {
    for (auto& child : children_) child.activity = detail::activity_of(child.pid);
    next_look_ns_ = now_ns() + static_cast<int64_t>(kStuckMs * 1e6);
  }

  /// Ranks stop together, after a step. If none of them is working, or one is stopped, that step will not end.
  void handle_stuck() {
    if (next_look_ns_ == 0 || now_ns() < next_look_ns_) return;
    bool is_one_at_work = false;
    for (const auto& child : children_) {
      if (!child.is_running) continue;
      const auto now = detail::activity_of(child.pid);
      if (now.state == 'T') return give_up(concat("rank ", child.rank, " is stopped"));
      is_one_at_work = is_one_at_work || detail::is_at_work(child.activity, now);
    }
    if (!is_one_at_work) return give_up(concat("no rank has used the processor or a disk for ", kStuckMs / 1e3, " s"));
    look();
  }

  void give_up(const std::string& why) {
    if (gave_up_.empty()) gave_up_ = why;
    next_look_ns_ = 0;
    kill_all();
  }

  void kill_all() {
    has_killed_ = true;
    signal_all(SIGKILL);
  }

  void handle_ends() {
    for (auto& child : children_) {
      if (!child.is_running || waitpid(child.pid, &child.status, WNOHANG) != child.pid) continue;
      child.is_running = false;
      child.has_own_failure = failed_by_itself(child.status);
      read_errors(child);
      blame(child);
      if (stop_signal_ != 0)
        end_within(kStopGraceMs, SIGKILL);
      else if (is_echo(child) && !is_ending_)
        end_within(kEchoGraceMs, SIGTERM);
    }
    if (stop_signal_ == 0 && !is_ending_ && first_failed_ != nullptr && !is_echo(*first_failed_)) terminate();
  }

  /// The first failure takes the blame; after a stop signal the first that has another reason than that signal.
  void blame(const Child& child) {
    if (child.status == 0 || is_ending_ || (stop_signal_ != 0 && !child.has_own_failure)) return;
    if (first_failed_ == nullptr || (is_echo(*first_failed_) && !is_echo(child))) first_failed_ = &child;
  }

  static bool is_echo(const Child& child) {
    return WIFEXITED(child.status) && WEXITSTATUS(child.status) == static_cast<int>(ErrorKind::kDevice);
  }

  bool failed_by_itself(int status) const {
    const auto is_stop = [](int signal) {
      return std::find(kStopSignals.begin(), kStopSignals.end(), signal) != kStopSignals.end();
    };
    if (WIFSIGNALED(status)) return !is_stop(WTERMSIG(status)) && !(has_killed_ && WTERMSIG(status) == SIGKILL);
    const int code = WEXITSTATUS(status);
    return code != 0 && code != static_cast<int>(ErrorKind::kDevice) && !is_stop(code - 128);
  }

  void end_within(double grace_ms, int signal) {
    if (deadline_ns_ != 0) return;
    deadline_ns_ = now_ns() + static_cast<int64_t>(grace_ms * 1e6);
    deadline_signal_ = signal;
  }

  void terminate() {
    is_ending_ = true;
    signal_all(SIGTERM);
    signal_all(SIGCONT);  // otherwise a stopped rank would never get SIGTERM
    deadline_ns_ = 0;
    end_within(kTermGraceMs, SIGKILL);
  }

  void handle_deadlines() {
    if (deadline_ns_ == 0 || now_ns() < deadline_ns_) return;
    deadline_ns_ = 0;
    if (deadline_signal_ == SIGTERM && stop_signal_ == 0)
      terminate();
    else
      kill_all();
  }

  int conclude() {
    if (stop_signal_ != 0 && !gave_up_.empty())
      write_stderr(concat("launch: ", gave_up_, " after SIG", sigabbrev_np(stop_signal_),
                          ": all ranks were killed; the last checkpoint was saved before that\n"));
    const bool has_failed = first_failed_ != nullptr && (stop_signal_ == 0 || first_failed_->has_own_failure);
    if (!has_failed) return stop_signal_ == 0 ? 0 : 128 + stop_signal_;
    const Child& child = *first_failed_;
    const bool was_killed = WIFSIGNALED(child.status);
    const int code = was_killed ? static_cast<int>(ErrorKind::kDevice) : WEXITSTATUS(child.status);
    std::string line = concat("[rank ", child.rank, "] ", child.last_line);
    if (was_killed)
      line = concat("rank ", child.rank, ": killed by signal ", WTERMSIG(child.status), " (",
                    strsignal(WTERMSIG(child.status)), "); the other ranks were ended");
    else if (child.last_line.empty())
      line = concat("rank ", child.rank, ": exit code ", code, " without a message; the other ranks were ended");
    if (line != last_written_) write_stderr(line + "\n");
    return code;
  }

  SignalPipe signals_;  // made before the children, so that it misses none of their ends
  std::vector<Child> children_;
  const Child* first_failed_ = nullptr;
  std::string last_written_;
  bool is_ending_ = false;    // a rank has failed, and the others were told to end
  bool has_killed_ = false;   // ranks were sent SIGKILL
  int stop_signal_ = 0;       // the first one that came; 0: none
  int64_t stopped_ns_ = 0;    // when stop_signal_ came
  std::string gave_up_;       // why the ranks were killed after stop_signal_
  int64_t next_look_ns_ = 0;  // when ranks that were told to stop are looked at; 0: never
  int64_t deadline_ns_ = 0;   // when deadline_signal_ is sent; 0: never
  int deadline_signal_ = 0;
};

}  // namespace

int spawn_ranks(int count, const std::vector<std::string>& arguments) {
  Ranks ranks;
  ranks.start(count, arguments);
  return ranks.wait_for_all();
}

}  // namespace penstock
