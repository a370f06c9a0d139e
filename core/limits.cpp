// Limits: reads getrlimit() and control groups, and starts threads to see whether it can.
#include "core/limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <system_error>
#include <thread>
#include <vector>

#include "core/machine.h"
#include "core/number_text.h"
#include "core/text.h"

namespace penstock {
namespace {

/// A thread that has been joined still counts towards the limits until the kernel has removed it.
void wait_until_gone(pid_t thread) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (syscall(SYS_tgkill, getpid(), thread, 0) == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
}

/// How many of `count` threads could be started at the same time.
int try_threads(int count) {
  std::atomic<bool> may_end{false};
  std::vector<std::thread> threads;
  std::vector<pid_t> ids(static_cast<size_t>(count));
  threads.reserve(ids.size());
  try {
    for (auto& id : ids) {
      threads.emplace_back([&] {
        id = static_cast<pid_t>(syscall(SYS_gettid));
        may_end.wait(false);
      });
    }
  } catch (const std::system_error&) {  // the number of threads so far is the answer
  }
  may_end = true;
  may_end.notify_all();
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < threads.size(); ++i) wait_until_gone(ids[i]);
  return static_cast<int>(threads.size());
}

std::string limits_text() {
  std::vector<std::string> limits;
  rlimit limit{};
  if (getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    limits.push_back(concat(limit.rlim_cur, " processes and threads of this user (ulimit -u)"));
  if (const auto pids = pids_limit()) limits.push_back(concat(*pids, " in this control group (pids.max)"));
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    limits.push_back(concat(byte_text(limit.rlim_cur), " of address space (ulimit -v)"));
  return limits.empty() ? "" : concat(" (limits: ", join(limits), ")");
}

uint64_t file_limit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

}  // namespace

Error threads_error(const std::string& where, int wanted, int given, const std::string& advice) {
  return device_error(concat(where, ": ", count_text(static_cast<uint64_t>(wanted), "thread"),
                             wanted == 1 ? " is" : " are", " wanted and the system gives ", given, limits_text(),
                             "; expected ", advice, ", or higher limits"));
}

Error memory_error(const std::string& where, const std::string& what, const std::string& advice) {
  std::string fact;
  uint64_t page_count = 0;
  std::ifstream("/proc/self/statm") >> page_count;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    fact = concat(" (", byte_text(page_count * static_cast<uint64_t>(sysconf(_SC_PAGESIZE))),
                  " of address space are used, ", byte_text(limit.rlim_cur), " allowed by ulimit -v)");
  }
  return device_error(concat(where, ": no memory for ", what, fact, "; expected ", advice, ", or more memory"));
}

void require_threads(const std::string& where, int count, const std::string& advice) {
  const int given = try_threads(count);
  if (given < count) throw threads_error(where, count, given, advice);
}

OutOfFiles::OutOfFiles(const std::string& where)
    : Error(ErrorKind::kDevice, concat(where, ": too many files are open; expected a higher limit than ", file_limit(),
                                       " (ulimit -n), or fewer workers")) {}

bool are_files_used_up() {
  const int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) close(descriptor);
  return descriptor < 0 && (errno == EMFILE || errno == ENFILE);
}

}  // namespace penstock
