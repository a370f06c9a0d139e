// Subject: its flags, and what they are for a strategy.
#include "train/verify/subject.h"

#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "train/nn/model.h"
#include "train/nn/module_names.h"
#include "train/nn/parameter_groups.h"
#include "train/options/average.h"

namespace penstock {
namespace {

constexpr double kWeightDecay = 1e-3, kMomentum = 0.9;

}  // namespace

std::string flags_of(const Subject& subject) {
  const Subject usual;
  std::vector<std::string> flags;
  const auto add = [&](const char* flag, const std::string& value, const std::string& by_default) {
    if (value != by_default) flags.push_back(concat(flag, " ", value));
  };
  add("--loss", subject.loss, usual.loss);
  add("--optimizer", subject.optimizer, usual.optimizer);
  add("--average", subject.average, usual.average);
  add("--layer-lr", subject.layer_lr, usual.layer_lr);
  if (subject.bias_decay >= 0) flags.push_back(concat("--bias-decay ", subject.bias_decay));
  add("--clip-grad", subject.clip, usual.clip);
  return join(flags, " ");
}

std::string text_of(const Subject& subject) {
  const std::string flags = flags_of(subject);
  return flags.empty() ? subject.arch : concat(subject.arch, " ", flags);
}

void check(const Subject& subject) {
  if (!make_loss(subject.loss)->target().is_class())
    throw config_error(concat("--loss ", subject.loss,
                              ": verify-modes trains on digits, which have no fields; expected a loss without target"));
  parse_clip(subject.clip);
  parse_average(subject.average);
  OptimizerContext nothing;
  nothing.options = optimizer_of(subject);
  make_optimizer(nothing);
  const auto model = make_model_of(subject.arch, ModelShape{});
  rate_factors_of(subject, *model);
  if (!std::isfinite(subject.bias_decay))
    throw config_error(concat("--bias-decay is ", subject.bias_decay, "; expected 0 or more and less than inf"));
}

OptimizerOptions optimizer_of(const Subject& subject) {
  const auto& traits = OptimizerRegistry::entry(parse_spec("optimizer", subject.optimizer).name()).traits;
  return {.learning_rate = traits.learning_rate / 5,
          .momentum = kMomentum,
          .weight_decay = kWeightDecay,
          .spec = subject.optimizer};
}

StepOptions step_options_of(const Subject& subject, const Model& model) {
  return {.weight_decays = bias_decays(model, subject.bias_decay),
          .loss = make_loss(subject.loss),
          .keeps_average = !subject.average.empty(),
          .clip = parse_clip(subject.clip)};
}

std::map<std::string, double> rate_factors_of(const Subject& subject, const Model& model) {
  return rate_factors(model, parse_layer_rates(subject.layer_lr));
}

}  // namespace penstock
