// Learning-rate schedules.
#include "train/schedule.h"

#include <cmath>
#include <numbers>

#include "core/error.h"
#include "core/text.h"

namespace penstock {

double learning_rate_at(const std::string& schedule, double learning_rate, int64_t step, int64_t step_count) {
  const double done = step_count > 0 ? static_cast<double>(step) / static_cast<double>(step_count) : 0;
  if (schedule == "constant") return learning_rate;
  if (schedule == "cosine") return learning_rate * 0.5 * (1 + std::cos(std::numbers::pi * done));
  if (schedule == "step") return learning_rate * (done < 0.5 ? 1 : done < 0.75 ? 0.1 : 0.01);
  throw config_error(concat("--schedule: ", unknown_name("schedule", schedule, {"constant", "cosine", "step"})));
}

}  // namespace penstock
