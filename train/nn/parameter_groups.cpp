// Parameter groups: biases of a model, and the parameters of its blocks, by name.
#include "train/nn/parameter_groups.h"

#include "train/nn/model.h"
#include "train/nn/module_names.h"

namespace penstock {

void scale_biases(const Model& model, double factor, std::map<std::string, double>& rate_factors) {
  if (factor == 1) return;
  for (const auto& item : model.named_parameters())
    if (item.value().dim() <= 1) rate_factors.try_emplace(item.key(), 1).first->second *= factor;
}

void decay_by_layer(const Model& model, double decay, std::map<std::string, double>& rate_factors) {
  if (decay == 1) return;
  double factor = 1;  // of the last block with parameters
  for (auto block = model.blocks().rbegin(); block != model.blocks().rend(); ++block) {
    bool has_parameters = false;
    for (const auto& module : block->modules)
      for (const auto& item : model.named_parameters())
        if (is_inside(item.key(), module)) {
          has_parameters = true;
          rate_factors.try_emplace(item.key(), 1).first->second *= factor;
        }
    if (has_parameters) factor *= decay;
  }
}

std::map<std::string, double> bias_decays(const Model& model, double decay) {
  std::map<std::string, double> decays;
  if (decay < 0) return decays;
  for (const auto& item : model.named_parameters())
    if (item.value().dim() <= 1) decays[item.key()] = decay;
  return decays;
}

}  // namespace penstock
