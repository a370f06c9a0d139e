// Biases: those of a model, by name.
#include "train/nn/parameter_groups.h"

#include "train/nn/model.h"

namespace penstock {

void scale_biases(const Model& model, double factor, std::map<std::string, double>& rate_factors) {
  if (factor == 1) return;
  for (const auto& item : model.named_parameters())
    if (item.value().dim() <= 1) rate_factors.try_emplace(item.key(), 1).first->second *= factor;
}

std::map<std::string, double> bias_decays(const Model& model, double decay) {
  std::map<std::string, double> decays;
  if (decay < 0) return decays;
  for (const auto& item : model.named_parameters())
    if (item.value().dim() <= 1) decays[item.key()] = decay;
  return decays;
}

}  // namespace penstock
