// Rate note: the schedules of the run as it was and as it goes on.
#include "train/checkpoint/rate_note.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "train/options/options_file.h"

namespace penstock {

std::string note_of_rate(const TrainOptions& options, const Position& at, int64_t steps_per_epoch) {
  const auto folder = options.resume.parent_path();
  const int64_t done = at.epoch * steps_per_epoch + at.batch, step_count = options.epochs * steps_per_epoch;
  if (!has_options(folder) || done < 1 || done >= step_count) return "";
  const auto earlier = read_options(folder);
  const auto value = [&](const char* key) { return earlier.value(key, nlohmann::json()); };
  const auto epochs = value("epochs"), rate = value("lr"), schedule = value("schedule");
  if (!epochs.is_number_integer() || !rate.is_number() || !schedule.is_string() || epochs == options.epochs) return "";
  const RateSchedule before(schedule.get<std::string>());
  const double was = rate.get<double>() *
                     before.factor(done - 1, std::max(done, epochs.get<int64_t>() * steps_per_epoch), steps_per_epoch);
  const double is = options.learning_rate * options.schedule->factor(done, step_count, steps_per_epoch);
  if (2 * std::min(was, is) >= std::max(was, is)) return "";
  return concat("--epochs is ", options.epochs, " and was ", epochs.get<int64_t>(), ": the learning rate was ", was,
                " in step ", at.step, " and goes on at ", is);
}

}  // namespace penstock
