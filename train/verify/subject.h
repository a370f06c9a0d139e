// Subject: what a pair trains, in the words of the flags of `train`.
#pragma once

#include <compare>
#include <string>

#include "train/losses/loss.h"
#include "train/optimizers/optimizer.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock {

struct Subject {
  std::string arch = "lenet";
  std::string loss = kDefaultLoss, optimizer = kDefaultOptimizer;
  std::string average = {}, layer_lr = {}, clip = {};
  double bias_decay = -1;  // below 0: that of all parameters

  auto operator<=>(const Subject&) const = default;
  static constexpr const char* kDefaultOptimizer = "sgd";
};

/// "--optimizer adamw --bias-decay 0": the flags that are not as by default; "" if all are.
std::string flags_of(const Subject& subject);
/// The arch, and the flags.
std::string text_of(const Subject& subject);
/// Throws config_error for names, keys and numbers that the flags do not take.
void check(const Subject& subject);

/// A fifth of the optimiser's usual learning rate. With LeNet and sgd more is chaotic: orders of the same sums are 1e-9
/// to 1e-6 apart after 200 steps, and stay at 1e-14 with this.
OptimizerOptions optimizer_of(const Subject& subject);
StepOptions step_options_of(const Subject& subject, const Model& model);
std::map<std::string, double> rate_factors_of(const Subject& subject, const Model& model);

}  // namespace penstock
