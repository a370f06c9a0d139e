// plateau: its keys, and what becomes of its state.
#include "train/options/plateau.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/spec.h"
#include "core/text.h"

namespace penstock {
namespace {

[[noreturn]] void refuse_plateau(const std::string& key, const std::string& value, const char* expected) {
  throw config_error(concat("--schedule plateau: ", key, " is ", value, "; expected ", expected));
}

double number_key(const Spec& spec, const char* key, double fallback, double least, double below,
                  const char* expected) {
  const double value = spec.get(key, fallback);
  if (!(value >= least && value < below)) refuse_plateau(key, concat(value), expected);
  return value;
}

int64_t epochs_key(const Spec& spec, const char* key, int fallback) {
  const int value = spec.get(key, fallback);
  if (value < 0) refuse_plateau(key, concat(value), "epochs, 0 or more");
  return value;
}

}  // namespace

std::vector<std::string> PlateauRule::keys() {
  return {"factor", "patience", "threshold", "threshold-mode", "cooldown", "floor", "on"};
}

PlateauRule::PlateauRule(const Spec& spec)
    : factor_(number_key(spec, "factor", 0.1, 0, 1, "a factor, 0 or more and less than 1")),
      threshold_(number_key(spec, "threshold", 1e-4, 0, HUGE_VAL, "0 or more")),
      floor_(number_key(spec, "floor", 0, 0, 1, "a factor, 0 or more and less than 1")),
      patience_(epochs_key(spec, "patience", 10)),
      cooldown_(epochs_key(spec, "cooldown", 0)),
      is_absolute_(spec.is_second("threshold-mode", "rel", "abs")),
      is_on_score_(spec.is_second("on", "loss", "score")) {}

bool PlateauRule::is_better(double value, bool smaller_is_better, const PlateauState& state) const {
  if (!std::isfinite(value)) return false;
  if (!state.best) return true;
  const double margin = is_absolute_ ? threshold_ : *state.best * threshold_;
  return smaller_is_better ? value < *state.best - margin : value > *state.best + margin;
}

bool PlateauRule::after_evaluation(double value, bool smaller_is_better, PlateauState& state) const {
  const bool better = is_better(value, smaller_is_better, state);
  if (better) state.best = value;
  state.bad_epochs = better ? 0 : state.bad_epochs + 1;
  if (state.cooldown > 0) {
    --state.cooldown;
    state.bad_epochs = 0;
  }
  if (state.bad_epochs <= patience_) return false;
  const double before = state.factor;
  state.factor = std::min(before, std::max(before * factor_, floor_));
  state.cooldown = cooldown_;
  state.bad_epochs = 0;
  return state.factor < before;
}

}  // namespace penstock
