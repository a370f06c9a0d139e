// Learning-rate schedules.
#include "train/options/rate_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "core/spec.h"
#include "core/text.h"

namespace penstock {
namespace {

double checked(const Spec& spec, const char* key, double fallback, double least, double most, const char* expected) {
  const double value = spec.get(key, fallback);
  if (!(value >= least && value <= most))
    throw config_error(concat("--schedule ", spec.name(), ": ", key, " is ", value, "; expected ", expected));
  return value;
}

constexpr double kLargest = 1e12;

double factor_key(const Spec& spec, const char* key, double fallback) {
  return checked(spec, key, fallback, 0, kLargest, "a factor, 0 to 1e12");
}

double divisor_key(const Spec& spec, const char* key, double fallback) {
  return checked(spec, key, fallback, 1, kLargest, "a divisor, 1 to 1e12");
}

double share_key(const Spec& spec, const char* key, double fallback) {
  return checked(spec, key, fallback, 0, 1, "a share of the steps, 0 to 1");
}

/// The keys of `name` besides those of the warm-up.
std::vector<std::string> own_keys(const std::string& name) {
  if (name == "cosine") return {"floor"};
  if (name == "plateau") return PlateauRule::keys();
  if (name == "polynomial") return {"power", "floor"};
  return name == "step" ? std::vector<std::string>{"every", "gamma"} : std::vector<std::string>();
}

double half_cosine(double from, double to, double done) {
  return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace

std::vector<std::string> RateSchedule::names() {
  return {"constant", "cosine", "onecycle", "plateau", "polynomial", "step", "triangular"};
}

RateSchedule::RateSchedule(const std::string& text) {
  Spec spec = parse_spec("schedule", text);
  name_ = spec.name();
  const auto known = names();
  if (std::find(known.begin(), known.end(), name_) == known.end())
    throw config_error(concat("--schedule: ", unknown_name("schedule", name_, known)));
  if (name_ == "triangular") {
    spec = spec.with_keys({"start", "peak", "end", "rest"});
    start_ = factor_key(spec, "start", 0);
    peak_ = share_key(spec, "peak", 0.5);
    end_ = factor_key(spec, "end", 0);
    constexpr double kRounding = 1e-9;  // peak=0.8,rest=0.2 add up to 1
    rest_ = checked(spec, "rest", 0, 0, 1 - peak_ + kRounding, "a share of the steps, 0 to 1 - peak");
  } else if (name_ == "onecycle") {
    spec = spec.with_keys({"peak", "divide", "final"});
    peak_ = share_key(spec, "peak", 0.3);
    start_ = 1 / divisor_key(spec, "divide", 25);
    end_ = start_ / divisor_key(spec, "final", 1e4);
  } else {
    auto keys = own_keys(name_);
    keys.insert(keys.end(), {"warmup", "warmup-start", "warmup-kind", "warmup-inside", "per"});
    spec = spec.with_keys(keys);
    if (name_ == "plateau") plateau_.emplace(spec);
    const bool falls = name_ == "cosine" || name_ == "polynomial";
    if (falls) floor_ = checked(spec, "floor", 0, 0, 1, "a factor, 0 to 1");
    if (name_ == "polynomial") power_ = checked(spec, "power", 1, 0, 100, "0 to 100");
    if (name_ == "step") {
      every_ = checked(spec, "every", 0, 0, kLargest, "epochs, or 0 for shares of the run");
      gamma_ = checked(spec, "gamma", 0.1, 0, 1, "a factor, 0 to 1");
      if (spec.has("gamma") && every_ == 0)
        throw config_error(concat(spec.where(), ": gamma is ", gamma_, " without every; expected both"));
    }
    read_warm_up(spec);
  }
}

void RateSchedule::read_warm_up(const Spec& spec) {
  is_per_epoch_ = spec.is_second("per", "step", "epoch");
  warmup_ = {.epochs = checked(spec, "warmup", 0, 0, kLargest, "epochs, 0 or more"),
             .start = checked(spec, "warmup-start", 0.01, 0, 1, "a factor, 0 to 1"),
             .is_constant = spec.is_second("warmup-kind", "linear", "constant"),
             .is_inside = spec.get("warmup-inside", false)};
  for (const char* key : {"warmup-start", "warmup-kind", "warmup-inside"})
    if (warmup_.epochs == 0 && spec.has(key))
      throw config_error(concat(spec.where(), ": has ", key, " and warmup is 0; expected warmup=EPOCHS"));
}

double RateSchedule::factor(int64_t step, int64_t step_count, int64_t epoch_steps) const {
  const auto at = static_cast<double>(is_per_epoch_ ? step - step % epoch_steps : step);
  const double warm_steps = warmup_.epochs * static_cast<double>(epoch_steps);
  if (at < warm_steps)
    return warmup_.is_constant ? warmup_.start : warmup_.start + (1 - warmup_.start) * at / warm_steps;
  const double left_out = warmup_.is_inside ? 0 : warm_steps;
  return factor_after_warm_up(at - left_out, static_cast<double>(step_count) - left_out, epoch_steps);
}

double RateSchedule::factor_after_warm_up(double step, double step_count, int64_t epoch_steps) const {
  const double done = step_count > 0 ? step / step_count : 0;
  if (name_ == "cosine" && floor_ == 0) return 0.5 * (1 + std::cos(std::numbers::pi * done));
  if (name_ == "cosine") return half_cosine(1, floor_, done);
  if (name_ == "polynomial") return floor_ + (1 - floor_) * std::pow(1 - done, power_);
  if (name_ == "step" && every_ > 0)
    return std::pow(gamma_, std::floor(step / (every_ * static_cast<double>(epoch_steps))));
  if (name_ == "step") return done < 0.5 ? 1 : done < 0.75 ? 0.1 : 0.01;
  if (name_ == "triangular") return triangular(step, step_count);
  return name_ == "onecycle" ? one_cycle(step, step_count) : 1;
}

double RateSchedule::triangular(double at, double last) const {
  const double turn = std::floor(peak_ * last);
  if (at < turn) return start_ + (1 - start_) * at / turn;
  const double stop = rest_ > 0 ? std::max((1 - rest_) * last, turn) : last;
  if (rest_ > 0 && at >= stop) return end_;
  return stop > turn ? 1 + (end_ - 1) * (at - turn) / (stop - turn) : 1;
}

/// The first phase ends at the step peak * step_count - 1, the second one with the last step.
double RateSchedule::one_cycle(double at, double step_count) const {
  const double last = step_count - 1;
  const double turn = std::max(peak_ * step_count - 1, 0.0);
  if (at <= turn && turn > 0) return half_cosine(start_, 1, at / turn);
  return last > turn ? half_cosine(1, end_, (at - turn) / (last - turn)) : 1;
}

}  // namespace penstock
