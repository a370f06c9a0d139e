// Setup: the model of a run, whole or weight by weight.
#include "train/run/setup.h"

#include "core/mutex.h"
#include "train/nn/initial_weights.h"
#include "train/nn/module_names.h"
#include "train/nn/pretrained.h"
#include "train/run/run_precision.h"
#include "train/tensor/out_of_memory.h"

namespace penstock {
namespace {

/// Draws the weights as --seed says.
std::unique_ptr<Model> drawn_model(const Setup& setup) {
  const auto& options = setup.options;
  at::manual_seed(options.seed);
  return naming_memory("--arch " + options.arch.text(), "its weights", "a smaller model",
                       [&] { return make_model_of(options.arch.text(), setup.shape); });
}

/// Calls `read` with the path of --pretrained, if it is given.
template <class Read>
void naming_pretrained(const Setup& setup, const Read& read) {
  const auto& path = setup.options.pretrained;
  if (!path.empty())
    naming_memory("--pretrained " + path.string(), "its tensors", "a smaller model", [&] { read(path); });
}

/// What of a model is not read from --pretrained.
std::vector<std::string> new_modules(const Setup& setup, const Model& model) {
  return setup.options.has_new_head ? new_head_modules(model) : std::vector<std::string>();
}

}  // namespace

void take_weights(Model& model, const NamedTensors& weights) {
  at::NoGradGuard no_grad;
  for (const auto& [name, value] : weights) model.named_parameters()[name].copy_(value);
}

OptimizerOptions optimizer_options(const OptimizationOptions& options) {
  return {options.learning_rate, options.momentum, options.weight_decay, options.optimizer.text()};
}

std::unique_ptr<Model> make_model(const Setup& setup) {
  const auto& options = setup.options;
  auto model = drawn_model(setup);
  naming_pretrained(setup, [&](const auto& path) { load_pretrained(*model, path, new_modules(setup, *model)); });
  take_weights(*model, setup.initial_weights);
  compute_in(*model, precision_of(options));
  freeze_layers(*model, options.freeze);
  return model;
}

namespace {

/// Weights come from the random numbers of the process.
std::unique_ptr<Model> stream_model(const Setup& setup, const UseTensor& use) {
  static Mutex mutex;
  const MutexLock lock(mutex);
  std::unique_ptr<Model> model;
  {
    WeightStream stream(use);
    model = drawn_model(setup);
    stream.finish(*model);
  }
  naming_pretrained(setup,
                    [&](const auto& path) { for_each_pretrained(*model, path, new_modules(setup, *model), use); });
  return model;
}

}  // namespace

std::unique_ptr<Model> make_outline(const Setup& setup) {
  auto model = stream_model(setup, [](const auto&, const auto&) {});
  compute_in(*model, precision_of(setup.options));
  freeze_layers(*model, setup.options.freeze);
  return model;
}

void for_each_weight(const Setup& setup, const UseTensor& use) {
  stream_model(setup, use);
  for (const auto& [name, value] : setup.initial_weights) use(name, value);
}

}  // namespace penstock
