// Schedules: pure functions of their arguments.
#include "train/strategies/schedule.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {

Schedule gpipe(int micro_batches) {
  Schedule schedule;
  for (int m = 0; m < micro_batches; ++m) schedule.push_back({Operation::Kind::kForward, m});
  for (int m = micro_batches; m-- > 0;) schedule.push_back({Operation::Kind::kBackward, m});
  return schedule;
}

Schedule one_forward_one_backward(int stage, int stage_count, int micro_batches) {
  Schedule schedule;
  const int ahead = std::min(stage_count - 1 - stage, micro_batches);
  for (int m = 0; m < ahead; ++m) schedule.push_back({Operation::Kind::kForward, m});
  for (int m = 0; m < micro_batches; ++m) {
    if (m + ahead < micro_batches) schedule.push_back({Operation::Kind::kForward, m + ahead});
    schedule.push_back({Operation::Kind::kBackward, m});
  }
  return schedule;
}

Schedule schedule_named(const std::string& name, int stage, int stage_count, int micro_batches) {
  if (name == "gpipe") return gpipe(micro_batches);
  if (name == "1f1b") return one_forward_one_backward(stage, stage_count, micro_batches);
  throw config_error(concat("--mode pipeline: ", unknown_name("schedule", name, {"1f1b", "gpipe"})));
}

int most_alive(const Schedule& schedule) {
  int alive = 0, most = 0;
  for (const auto& operation : schedule) {
    alive += operation.kind == Operation::Kind::kForward ? 1 : -1;
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace penstock::detail
