// Layers by name: finding, freezing and giving them learning rates.
#include "train/nn/module_names.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/number.h"
#include "core/text.h"
#include "train/nn/model.h"

namespace penstock {
namespace {

/// "stem (conv1, bn1)"; "layer1" for any of its blocks.
std::string block_text(const Block& block) {
  if (const size_t dot = block.name.find('.'); dot != std::string::npos) return block.name.substr(0, dot);
  const bool says_more = block.modules.size() != 1 || block.modules.front() != block.name;
  return says_more ? concat(block.name, " (", join(block.modules), ")") : block.name;
}

double factor_of(const std::string& item, const std::string& text) {
  const auto factor = parse_number<double>(text);
  if (!factor || !(*factor > 0) || !std::isfinite(*factor))
    throw config_error(concat("--layer-lr: ", in_quotes(item),
                              "; expected LAYER=FACTOR with a factor above 0, such as fc=10 ",
                              "(--freeze is for layers that are not to be trained)"));
  return *factor;
}

}  // namespace

std::vector<std::string> modules_named(const Model& model, const std::string& flag, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& block : model.blocks()) {
    if (block.name == name) return block.modules;
    const std::string text = block_text(block);
    if (known.empty() || known.back() != text) known.push_back(text);
  }
  for (const auto& item : model.named_modules("", /*include_self=*/false))
    if (item.key() == name) return {name};
  throw config_error(concat(flag, ": ", unknown_name("layer", name, known)));
}

bool is_inside(const std::string& name, const std::string& module) {
  return name == module || (name.size() > module.size() && name.starts_with(module) && name[module.size()] == '.');
}

std::string blocks_text(const Model& model, size_t first, size_t end) {
  const auto& blocks = model.blocks();
  if (first == end) return "";
  return blocks[first].name + (end - first > 1 ? ".." + blocks[end - 1].name : std::string());
}

std::vector<std::string> head_modules(const Model& model) {
  if (model.blocks().empty()) throw bug_error("model: has no blocks; expected a constructor that calls add_block()");
  return model.blocks().back().modules;
}

std::vector<std::string> new_head_modules(const Model& model) {
  const auto head = head_modules(model);
  const auto is_in_head = [&](const auto& item) {
    return std::any_of(head.begin(), head.end(), [&](const auto& module) { return is_inside(item.key(), module); });
  };
  const auto parameters = model.named_parameters();
  if (std::all_of(parameters.begin(), parameters.end(), is_in_head))
    throw config_error(concat("--new-head: all parameters are in the last block (", join(head),
                              "), none would be taken from --pretrained; expected a model of several blocks"));
  return head;
}

void freeze_layers(Model& model, const std::string& list) {
  if (list.empty()) return;
  std::set<std::string> frozen;
  for (const auto& name : split(list, ',')) {
    if (!frozen.insert(name).second)
      throw config_error(concat("--freeze is ", list, ": ", name, " is given twice; expected it once"));
    for (const auto& module : modules_named(model, "--freeze", name)) model.freeze(module);
  }
  const auto parameters = model.parameters();
  if (std::none_of(parameters.begin(), parameters.end(), [](const auto& tensor) { return tensor.requires_grad(); }))
    throw config_error(concat("--freeze is ", list, ": no parameter would be trained; expected fewer layers"));
}

ParameterCount count_parameters(const Model& model, const std::string& frozen_layers) {
  std::vector<std::string> frozen;
  if (!frozen_layers.empty())
    for (const auto& name : split(frozen_layers, ','))
      for (const auto& module : modules_named(model, "--freeze", name)) frozen.push_back(module);
  ParameterCount count;
  for (const auto& parameter : model.named_parameters()) {
    const int64_t numbers = parameter.value().numel();
    count.all += numbers;
    if (std::any_of(frozen.begin(), frozen.end(), [&](const auto& one) { return is_inside(parameter.key(), one); }))
      count.frozen += numbers;
  }
  return count;
}

bool has_batch_norm(const Model& model) {
  const auto buffers = model.named_buffers();
  return std::any_of(buffers.begin(), buffers.end(),
                     [](const auto& item) { return item.key().ends_with("running_mean"); });
}

LayerRates parse_layer_rates(const std::string& list) {
  LayerRates rates;
  if (list.empty()) return rates;
  for (const auto& item : split(list, ',')) {
    const size_t equals = item.find('=');
    rates.emplace_back(item.substr(0, equals),
                       factor_of(item, equals == std::string::npos ? "" : item.substr(equals + 1)));
  }
  return rates;
}

std::map<std::string, double> rate_factors(const Model& model, const LayerRates& rates) {
  std::map<std::string, double> factors;
  std::map<std::string, std::string> layer_of;
  for (const auto& [name, factor] : rates) {
    bool is_trained = false;
    for (const auto& module : modules_named(model, "--layer-lr", name)) {
      for (const auto& parameter : model.named_parameters()) {
        if (!is_inside(parameter.key(), module)) continue;
        is_trained |= parameter.value().requires_grad();
        if (const auto [other, is_new] = layer_of.emplace(parameter.key(), name); !is_new)
          throw config_error(concat("--layer-lr: ", parameter.key(), " is in ", other->second, " and in ", name,
                                    "; expected it in one of them only"));
        factors[parameter.key()] = factor;
      }
    }
    if (!is_trained)
      throw config_error(concat("--layer-lr: ", name, " has no parameter that is trained; expected a layer with ",
                                "parameters that --freeze does not name"));
  }
  return factors;
}

}  // namespace penstock
