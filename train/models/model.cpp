// Model: freezing modules.
#include "train/models/model.h"

namespace penstock {

void Model::freeze(const std::string& module) {
  const auto modules = named_modules("", /*include_self=*/false);
  const auto& frozen = modules[module];
  for (auto& parameter : frozen->parameters()) parameter.set_requires_grad(false);
  frozen->eval();
  frozen_.push_back(frozen);
}

void Model::train(bool on) {
  torch::nn::Module::train(on);
  for (const auto& module : frozen_) module->eval();
}

}  // namespace penstock
