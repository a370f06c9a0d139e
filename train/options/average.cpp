// --average: its keys.
#include "train/options/average.h"

#include <cmath>

#include "core/error.h"
#include "core/spec.h"
#include "core/text.h"

namespace penstock {

double AverageOptions::decay_after(int64_t step, int64_t step_count) const {
  return power == 0 ? decay : decay * std::pow(static_cast<double>(step) / static_cast<double>(step_count), power);
}

AverageOptions parse_average(const std::string& text) {
  if (text.empty()) return {};
  const Spec typed = parse_spec("average", text);
  if (typed.name() != "ema" && typed.name() != "lookahead")
    throw config_error(concat("--average: ", unknown_name("average", typed.name(), {"ema", "lookahead"})));
  const Spec spec = typed.with_keys({"decay", "every", "power", "beside"});
  const AverageOptions options{.name = spec.name(),
                               .every = spec.get("every", 5),
                               .decay = spec.get("decay", 0.99),
                               .power = spec.get("power", 0.0),
                               .restarts = spec.name() == "lookahead",
                               .is_beside = spec.get("beside", spec.name() == "ema")};
  const auto refuse = [&](const char* key, double value, const char* expected) {
    throw config_error(concat("--average ", spec.name(), ": ", key, " is ", value, "; expected ", expected));
  };
  if (options.every < 1) refuse("every", options.every, "1 step or more");
  if (!(options.decay >= 0 && options.decay < 1)) refuse("decay", options.decay, "0 or more and less than 1");
  if (!(options.power >= 0 && options.power <= 100)) refuse("power", options.power, "0 to 100");
  return options;
}

}  // namespace penstock
