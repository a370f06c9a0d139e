// Activity: reads the state and the processor time from /proc/PID/stat.
#include "train/launch_activity.h"

#include <fstream>
#include <iterator>
#include <sstream>

#include "core/text.h"

namespace penstock::detail {

namespace {

constexpr int64_t kIdleTicks = 5;  // 50 ms; the thread of the roll call takes only 1 ms in 5 s

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

Activity activity_of(pid_t process) {
  std::ifstream file(concat("/proc/", process, "/stat"));
  return parse_activity({std::istreambuf_iterator<char>(file), {}});
}

bool is_at_work(const Activity& before, const Activity& now) {
  if (now.state == 'T' || now.state == 't') return false;
  return now.state == 'D' || now.cpu_ticks - before.cpu_ticks > kIdleTicks;
}

}  // namespace penstock::detail
