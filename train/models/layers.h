// Layers by name: what --freeze, --layer-lr and --new-head mean by `layer1` or `fc`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace penstock {

class Model;

/// The modules that `name` means: those of the stage of that name (`stem`: conv1, bn1), otherwise the one module of
/// that path (`conv1`, `layer4.0`). Throws config_error `<flag>: unknown layer "..."` with the stages and their
/// modules.
std::vector<std::string> modules_named(const Model& model, const std::string& flag, const std::string& name);

/// Whether the parameter or buffer `name` belongs to the module `module`: "fc.weight" to "fc".
bool is_inside(const std::string& name, const std::string& module);

/// The modules of the last stage, which makes the logits.
std::vector<std::string> head_modules(const Model& model);

/// Freezes the layers of a list such as `stem,layer1`. Throws config_error for an unknown layer, and when nothing would
/// be left to train.
void freeze_layers(Model& model, const std::string& list);

struct ParameterCount {
  int64_t all = 0, frozen = 0;  ///< Numbers, not tensors.
};
ParameterCount count_parameters(const Model& model);

/// The factors of the learning rate by parameter, from a list such as `layer4=0.1,fc=10`; parameters that are in none
/// of its layers are left out. Throws config_error for an unknown layer, a factor that is not above 0, a parameter that
/// is in two of the layers, and a layer of which everything is frozen.
std::map<std::string, double> rate_factors(const Model& model, const std::string& list);

}  // namespace penstock
