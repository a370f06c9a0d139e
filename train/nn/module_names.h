// Layers by name: what `layer1` or `fc` mean for --freeze, --layer-lr and --new-head.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace penstock {

class Model;

/// The modules that `name` means: all modules of the block with that name (`stem`: conv1, bn1), or else the module with
/// that path (`conv1`, `layer4.0`). Throws config_error `<flag>: unknown layer "..."`, which lists the blocks and their
/// modules.
std::vector<std::string> modules_named(const Model& model, const std::string& flag, const std::string& name);

/// Blocks `first` to `end` - 1: "layer1.0..layer2.1", or the name of a single one.
std::string blocks_text(const Model& model, size_t first, size_t end);

/// Whether the parameter or buffer `name` belongs to the module `module`, as "fc.weight" belongs to "fc", or is what
/// `module` names itself.
bool is_inside(const std::string& name, const std::string& module);

/// The modules of the last block, which makes the logits. Throws bug_error for a model without blocks.
std::vector<std::string> head_modules(const Model& model);

/// The layers that --new-head starts anew: head_modules(). Throws config_error if all parameters belong to them,
/// because then nothing of the pretrained weights would be left.
std::vector<std::string> new_head_modules(const Model& model);

/// Freezes the layers in a list such as `stem,layer1`. Throws config_error for an unknown layer, and if no parameter
/// would be left to train.
void freeze_layers(Model& model, const std::string& list);

struct ParameterCount {
  int64_t all = 0, frozen = 0;  ///< They count numbers, not tensors.
};
/// `frozen` are those in the layers of freeze_layers()'s list, without what the model itself does not train elsewhere.
ParameterCount count_parameters(const Model& model, const std::string& frozen_layers = "");

bool has_batch_norm(const Model& model);

/// Layers with the factors of their learning rate.
using LayerRates = std::vector<std::pair<std::string, double>>;

/// Parses a list such as `layer4=0.1,fc=10`; "" is empty. Throws config_error for a factor that is not above 0.
LayerRates parse_layer_rates(const std::string& list);

/// The factor of the learning rate for each parameter. Parameters in none of the layers have no entry. Throws
/// config_error for an unknown layer, a parameter that is in two of the layers, and a layer without parameters that are
/// trained.
std::map<std::string, double> rate_factors(const Model& model, const LayerRates& rates);

}  // namespace penstock
