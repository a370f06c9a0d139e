// Adaptation: the rules of their states, and what they change.
#include "train/loop/adaptation.h"

#include "core/error.h"
#include "core/text.h"
#include "train/nn/precision.h"
#include "train/options/divergence.h"

namespace penstock {
namespace {

void set_scale(const TrainOptions& options, const GradientScale& scale, Strategy& strategy) {
  Precision precision = *options.precision;
  precision.is_channels_last = options.is_channels_last;
  precision.gradient_scale = scale.scale;
  strategy.compute_in(precision);
}

}  // namespace

void begin_adaptation(const TrainOptions& options, Strategy& strategy, Position& position) {
  const bool has_plateau = options.schedule->plateau() != nullptr;
  if (!has_plateau) position.plateau.reset();
  if (has_plateau && !position.plateau) position.plateau.emplace();
  const bool has_scale = options.precision->adapts() && options.emulation.learns();
  if (!has_scale) position.scale.reset();
  if (has_scale && !position.scale) position.scale = GradientScale{.scale = options.precision->gradient_scale};
  if (has_scale) set_scale(options, *position.scale, strategy);
}

void adapt_scale(const TrainOptions& options, bool was_skipped, Strategy& strategy, Position& position) {
  if (!position.scale || !position.scale->after_step(was_skipped, options.precision->growth_steps)) return;
  if (position.scale->scale < 1)
    throw config_error(concat("epoch ", position.epoch + 1, ", step ", position.step + 1,
                              ": gradients are not finite with a scale of 1 either, ",
                              text_of_divergence(options, "finite ones")));
  set_scale(options, *position.scale, strategy);
}

std::string follow_plateau(const TrainOptions& options, const Evaluation& evaluation, Position& position) {
  if (!position.plateau || !options.schedule->counts_epoch(position.epoch)) return "";
  const PlateauRule& rule = *options.schedule->plateau();
  const Score& score = evaluation.scores.front();
  const double value = rule.is_on_score() ? score.value : evaluation.loss;
  if (!rule.after_evaluation(value, !rule.is_on_score() || evaluation.is_error, *position.plateau)) return "";
  return concat("epoch ", position.epoch + 1, ": the ", rule.is_on_score() ? score.name : "loss",
                " of evaluations gets no better: the learning rate is now ",
                options.learning_rate * position.plateau->factor, " (--schedule plateau)");
}

}  // namespace penstock
