// Model: freezing modules, and parameters with two names.
#include "train/nn/model.h"

#include <map>

#include "core/error.h"
#include "core/spec.h"
#include "core/text.h"
#include "train/nn/drop.h"

namespace penstock {
namespace {

void check_tied(const std::string& arch, const Model& model) {
  std::map<std::pair<const void*, int64_t>, std::string> names;  // by storage and place in it
  for (const auto& item : model.named_parameters()) {
    const auto& tensor = item.value();
    if (tensor.numel() == 0) continue;
    const std::pair place(static_cast<const void*>(tensor.storage().unsafeGetStorageImpl()), tensor.storage_offset());
    const auto [found, is_new] = names.emplace(place, item.key());
    if (!is_new)
      throw config_error(concat("--arch ", arch, ": parameters ", found->second, " and ", item.key(),
                                " are one tensor; expected one name for it, as a module has that is registered once ",
                                "and used in several places"));
  }
}

}  // namespace

void Model::wrap_blocks(const std::function<BlockForward(size_t, BlockForward)>& wrap) {
  for (size_t i = 0; i < blocks_.size(); ++i) blocks_[i].forward = wrap(i, std::move(blocks_[i].forward));
}

void Model::freeze(const std::string& module) {
  const auto parameters = named_parameters();
  if (auto* parameter = parameters.find(module)) {
    parameter->set_requires_grad(false);
    return;
  }
  const auto modules = named_modules("", /*include_self=*/false);
  const auto& frozen = modules[module];
  for (auto& parameter : frozen->parameters()) parameter.set_requires_grad(false);
  frozen->eval();
  for (const auto& part : frozen->modules())
    if (auto* drop = dynamic_cast<DropImpl*>(part.get())) drop->stop();
  frozen_.push_back(frozen);
}

void Model::train(bool on) {
  torch::nn::Module::train(on);
  for (const auto& module : frozen_) module->eval();
}

std::unique_ptr<Model> make_model_of(const std::string& arch, const ModelShape& shape) {
  auto model = ModelRegistry::make(parse_spec(ModelKind::kName, arch), shape);
  check_tied(arch, *model);
  return model;
}

}  // namespace penstock
