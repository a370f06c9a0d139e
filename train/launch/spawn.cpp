// launch: starts ranks as child processes and waits until the last one has ended.
#include "train/launch/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "train/launch/child.h"
#include "train/launch/stop_signals.h"
#include "train/rendezvous/token.h"

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

/// While it lives, stop signals, SIGTSTP (Ctrl-Z) and SIGCHLD arrive as bytes in a pipe, no matter to which thread the
/// kernel delivers them.
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
      const bool is_ignored = kSignals[i] == SIGTSTP && previous_[i].sa_handler == SIG_IGN;  // a shell without jobs
      if (is_heeded(kSignals[i]) && !is_ignored) sigaction(kSignals[i], &action, nullptr);
    }
  }
  ~SignalPipe() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous_[i], nullptr);
    for (const int end : ends_) close(end);
  }
  int descriptor() const { return ends_[0]; }

  static constexpr std::array<int, 5> kSignals{SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGTSTP};
  static_assert(kSignals.size() == kStopSignals.size() + 2);

 private:
  std::array<int, 2> ends_{};
  std::array<struct sigaction, kSignals.size()> previous_{};
};

void write_stderr(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const auto count = write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (count < 0 && errno != EINTR) return;
    if (count > 0) done += static_cast<size_t>(count);
  }
}

class Ranks {
 public:
  void start(const std::vector<RankCommand>& commands) {
    children_.reserve(commands.size());
    const std::string token = random_token();
    for (const auto& command : commands) children_.push_back(detail::spawn_rank(command, token));
  }
  /// Kills the ranks that still run, which are there only after an exception.
  ~Ranks() {
    signal_all(SIGKILL);
    for (auto& child : children_) {
      if (child.is_running) waitpid(child.pid, nullptr, 0);
      for (const int descriptor : {child.errors, child.control})
        if (descriptor >= 0) close(descriptor);
    }
  }

  RanksEnd wait_for_all() {
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
    return std::count_if(children_.begin(), children_.end(),
                         [](const detail::Child& child) { return child.is_running; });
  }

  void signal_all(int signal) {
    for (const auto& child : children_)
      if (child.is_running) signal_one(child, signal);
  }

  /// A rank on another machine kills itself when its ssh is gone.
  static void signal_one(const detail::Child& child, int signal) {
    const auto byte = static_cast<unsigned char>(signal);
    if (child.control < 0 || signal == SIGKILL)
      kill(child.pid, signal);
    else
      send(child.control, &byte, 1, MSG_NOSIGNAL);
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
  void read_errors(detail::Child& child) {
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

  void pass_on(detail::Child& child, std::string line) {
    if (line.ends_with('\r')) line.pop_back();  // ssh's own lines end like that
    if (!line.empty()) child.last_line = line;
    last_written_ = concat("[rank ", child.rank, "] ", line);
    write_stderr(last_written_ + "\n");
  }

  void handle_signals() {
    unsigned char signal = 0;
    while (read(signals_.descriptor(), &signal, 1) == 1) {
      if (signal == SIGCHLD) continue;
      if (signal == SIGTSTP)
        pause();
      else if (!std::exchange(is_told_, true)) {
        begin_stop(signal);
        signal_all(signal);
      } else if (ms_since(stopped_ns_) >= kSecondSignalMs) {
        give_up("a second signal came");
      }
    }
  }

  /// Ranks have process groups of their own, which Ctrl-Z does not reach. Those on other machines go on, and so do all.
  void pause() {
    const bool are_here = std::ranges::all_of(children_, [](const auto& child) { return child.host.empty(); });
    for (const int signal : {SIGSTOP, SIGCONT}) {
      for (const auto& child : children_)
        if (child.is_running && are_here) kill(child.pid, signal);
      if (signal == SIGSTOP) raise(SIGSTOP);  // returns when this process goes on
    }
  }

  void begin_stop(int signal) {
    if (stop_signal_ == 0) stop_signal_ = signal;
    stopped_ns_ = now_ns();
    look();
  }

  void look() {
    for (auto& child : children_) {
      if (!child.host.empty()) return;  // an ssh that waits says nothing about the work of its rank
      child.activity = detail::activity_of(child.pid);
    }
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
      notice_stop(child);
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

  /// A stop signal may come to one rank and not here. If that rank trains, all ranks have voted, saved and end with
  /// this code. If the signal ends it, because it does not train yet or no longer, the others are told to stop as well.
  void notice_stop(const detail::Child& child) {
    const bool is_killed = WIFSIGNALED(child.status);
    const int signal = is_killed ? WTERMSIG(child.status) : WEXITSTATUS(child.status) - 128;
    if (stop_signal_ != 0 || is_ending_ || !is_stop(signal)) return;
    begin_stop(signal);
    if (!is_killed) return;
    write_stderr(
        concat("launch: SIG", sigabbrev_np(signal), " ended rank ", child.rank, "; the others are told to stop\n"));
    signal_all(signal);
  }

  static bool is_stop(int signal) {
    return std::find(kStopSignals.begin(), kStopSignals.end(), signal) != kStopSignals.end();
  }

  /// The first failure takes the blame; after a stop signal the first that has another reason than that signal.
  void blame(const detail::Child& child) {
    if (child.status == 0 || is_ending_ || (stop_signal_ != 0 && !child.has_own_failure)) return;
    if (first_failed_ == nullptr) failed_ = FailureTime::clock::now();
    if (first_failed_ == nullptr || (is_echo(*first_failed_) && !is_echo(child))) first_failed_ = &child;
  }

  static bool is_echo(const detail::Child& child) {
    return WIFEXITED(child.status) && WEXITSTATUS(child.status) == static_cast<int>(ErrorKind::kDevice);
  }

  bool failed_by_itself(int status) const {
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

  RanksEnd conclude() {
    if (stop_signal_ != 0 && !gave_up_.empty())
      write_stderr(concat("launch: ", gave_up_, " after SIG", sigabbrev_np(stop_signal_),
                          ": all ranks were killed; the last checkpoint was saved before that\n"));
    const bool has_failed = first_failed_ != nullptr && (stop_signal_ == 0 || first_failed_->has_own_failure);
    // A signal that comes when nothing is left to do stops nothing.
    const bool is_complete =
        std::all_of(children_.begin(), children_.end(), [](const detail::Child& child) { return child.status == 0; });
    RanksEnd end;
    if (!has_failed) {
      end.code = is_complete ? 0 : 128 + stop_signal_;
      return end;
    }
    const detail::Child& child = *first_failed_;
    end = how_it_ended(child);
    end.failed = failed_;
    end.may_go_on = stop_signal_ == 0 && end.code == static_cast<int>(ErrorKind::kDevice);
    if (end.last_line == last_written_) end.last_line.clear();
    return end;
  }

  static RanksEnd how_it_ended(const detail::Child& child) {
    constexpr int kSshFailed = 255;
    constexpr int kDevice = static_cast<int>(ErrorKind::kDevice);
    const std::string who = concat("rank ", child.rank);
    if (WIFSIGNALED(child.status)) {
      const int signal = WTERMSIG(child.status);
      if (signal == SIGPIPE)  // a shell gives this code to a program that ends alone like this
        return {128 + signal, concat("launch: the output of ", who, " was closed; all ranks were ended"), ""};
      const std::string cause = concat("killed by signal ", signal, " (", strsignal(signal), ")");
      return {kDevice, concat(who, ": ", cause, "; the other ranks were ended"), concat(who, " was ", cause)};
    }
    const int code = WEXITSTATUS(child.status);
    if (code == kSshFailed && !child.host.empty())
      return {kDevice,
              concat(who, " on ", child.host, ": ", child.last_line.empty() ? "ssh failed" : child.last_line,
                     "; expected a host that ssh reaches without a password, and that keeps running"),
              concat(who, " on ", child.host, " was lost")};
    const std::string message = concat("[", who, "] ", child.last_line);
    const std::string silent = concat(who, ": exit code ", code, " without a message; the other ranks were ended");
    return {code, child.last_line.empty() ? silent : message,
            child.last_line.empty() ? concat(who, " ended with exit code ", code) : fact_of(child.last_line)};
  }

  /// What has happened, without the program that says it and what it expects: "rank 0: gloo: all_reduce: rank 1 did
  /// ..."
  static std::string fact_of(const std::string& line) {
    const auto end_of_program = line.find(": ");
    const size_t begin = line.find(' ') == end_of_program + 1 ? end_of_program + 2 : 0;
    return line.substr(begin, line.find("; expected ", begin) - begin);
  }

  SignalPipe signals_;  // made before the children, so that it misses none of their ends
  std::vector<detail::Child> children_;
  const detail::Child* first_failed_ = nullptr;
  FailureTime failed_;  // when the first rank that failed had ended
  std::string last_written_;
  bool is_ending_ = false;    // a rank has failed, and the others were told to end
  bool has_killed_ = false;   // ranks were sent SIGKILL
  int stop_signal_ = 0;       // the first one that came, here or to a rank; 0: none
  bool is_told_ = false;      // a stop signal came here
  int64_t stopped_ns_ = 0;    // when the first one came to a rank or, if one did, here
  std::string gave_up_;       // why the ranks were killed after stop_signal_
  int64_t next_look_ns_ = 0;  // when ranks that were told to stop are looked at; 0: never
  int64_t deadline_ns_ = 0;   // when deadline_signal_ is sent; 0: never
  int deadline_signal_ = 0;
};

}  // namespace

RanksEnd run_ranks(const std::vector<RankCommand>& commands) {
  Ranks ranks;
  ranks.start(commands);
  return ranks.wait_for_all();
}

}  // namespace penstock
