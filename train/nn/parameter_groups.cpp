// Parameter groups: biases of a model, and the parameters of its blocks, by name.
#include "train/nn/parameter_groups.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/text.h"
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
    const bool is_part = block + 1 != model.blocks().rend() && (block + 1)->has_rate_of_next;
    if (has_parameters && !is_part) factor *= decay;
  }
}

std::map<std::string, double> bias_decays(const Model& model, double decay) {
  std::map<std::string, double> decays;
  if (decay < 0) return decays;
  for (const auto& item : model.named_parameters())
    if (item.value().dim() <= 1) decays[item.key()] = decay;
  return decays;
}

namespace {

/// The kind of a parameter, as DecayKinds has it; "" for weights of convolutions and linear layers.
std::string kind_of(const Model& model, const std::string& name) {
  static const std::map<std::string, std::string> own{
      {"class_token", "token"}, {"pos_embedding", "position"}, {"layer_scale", "scale"}};
  const size_t dot = name.rfind('.');
  const std::string module = dot == std::string::npos ? "" : name.substr(0, dot + 1);
  const std::string last = name.substr(module.size());
  if (const auto found = own.find(last); found != own.end()) return found->second;
  const auto parameters = model.named_parameters();
  const auto* weight = parameters.find(module + "weight");
  if (weight != nullptr && weight->dim() == 1) return "norm";
  return last.ends_with("bias") ? "bias" : "";
}

}  // namespace

DecayKinds parse_no_decay(const std::string& list) {
  static const std::vector<std::string> known{"bias", "norm", "position", "scale", "token"};
  DecayKinds kinds;
  if (list.empty()) return kinds;
  for (const auto& kind : split(list, ',')) {
    if (std::find(known.begin(), known.end(), kind) == known.end())
      throw config_error(concat("--no-decay: ", unknown_name("kind of parameter", kind, known)));
    kinds.insert(kind);
  }
  return kinds;
}

void leave_out_of_decay(const Model& model, const DecayKinds& kinds, std::map<std::string, double>& decays) {
  if (kinds.empty()) return;
  for (const auto& item : model.named_parameters())
    if (kinds.contains(kind_of(model, item.key()))) decays[item.key()] = 0;
}

std::set<std::string> no_matrices(const Model& model) {
  const auto head = head_modules(model);
  const auto is_in_head = [&](const std::string& name) {
    return std::any_of(head.begin(), head.end(), [&](const auto& module) { return is_inside(name, module); });
  };
  std::set<std::string> names;
  for (const auto& item : model.named_parameters())
    if (item.value().dim() >= 2 && (!item.key().ends_with("weight") || is_in_head(item.key())))
      names.insert(item.key());
  return names;
}

}  // namespace penstock
