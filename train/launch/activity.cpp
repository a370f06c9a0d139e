// Activity: reads the state and the processor time from /proc/PID/stat, and the threads' states from /proc/PID/task.
#include "train/launch/activity.h"

#include <fstream>
#include <iterator>
#include <sstream>

namespace penstock::detail {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kIdleTicks = 5;  // 50 ms; the thread of the heartbeat takes only 1 ms in 5 s

Activity read_stat(const fs::path& path) {
  std::ifstream file(path);
  return parse_activity({std::istreambuf_iterator<char>(file), {}});
}

}  // namespace

Activity parse_activity(const std::string& stat) {
  const auto name_end = stat.rfind(')');  // the name may contain blanks and parentheses
  if (name_end == std::string::npos) return {};
  std::istringstream fields(stat.substr(name_end + 1));
  Activity activity;
  std::string skipped;
  fields >> activity.state;
  for (int i = 0; i < 10; ++i) fields >> skipped;  // from ppid to cmajflt
  int64_t user = 0, system = 0;
  fields >> user >> system;
  activity.cpu_ticks = user + system;
  return activity;
}

Activity activity_of(pid_t process, const fs::path& proc) {
  const fs::path folder = proc / std::to_string(process);
  Activity activity = read_stat(folder / "stat");
  if (activity.state == 'T' || activity.state == 't') return activity;
  std::error_code ignored;  // threads and processes may end meanwhile
  for (fs::directory_iterator task(folder / "task", ignored), end; !ignored && task != end; task.increment(ignored))
    if (read_stat(task->path() / "stat").state == 'D') activity.state = 'D';
  return activity;
}

bool is_at_work(const Activity& before, const Activity& now) {
  if (now.state == 'T' || now.state == 't') return false;
  return now.state == 'D' || now.cpu_ticks - before.cpu_ticks > kIdleTicks;
}

}  // namespace penstock::detail
