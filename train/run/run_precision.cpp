// Run precision: checks.
#include "train/run/run_precision.h"

#include <ATen/Context.h>
#ifdef PENSTOCK_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "train/nn/model.h"

namespace penstock {
namespace {

/// Major version of the compute capability of the weakest visible GPU.
int compute_capability() {
  int least = 1000;
#ifdef PENSTOCK_HAS_CUDA
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  for (int device = 0; device < count; ++device) {
    int major = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess)
      least = std::min(least, major);
  }
#endif
  return least;
}

/// A scale that adapts has to know that all gradients are finite before anything changes by them.
void check_scale(const TrainOptions& options) {
  if (!options.precision->adapts() || options.only_evaluates) return;
  const Spec& mode = *options.mode;
  const auto refuse = [&](const char* fact, const char* key) {
    throw config_error(concat("--precision ", options.precision, " with --mode ", options.mode, ", which ", fact,
                              "; expected a scale that stays, such as f16(scale=1024), or no ", key));
  };
  if (mode.has("local-steps")) refuse("lets ranks take steps alone, without a word about overflows", "local-steps");
  if (mode.get("compress", "") == "powersgd")
    refuse("keeps the error of gradients, also of those that are not finite", "compress=powersgd");
}

}  // namespace

Precision precision_of(const ModelOptions& options) {
  Precision precision = *options.precision;
  precision.is_channels_last = options.is_channels_last;
  return precision;
}

Layout layout_of_rows(const Precision& precision, const Model& model) {
  if (!precision.dtype || !model.rounds_images()) return Layout::kF32Nchw;
  return *precision.dtype == torch::kHalf ? Layout::kF16Nchw : Layout::kBf16Nchw;
}

void check_precision(const TrainOptions& options, torch::DeviceType device) {
  const std::string& name = options.precision->name;
  if (options.exact_shards > 0 && (name != "f32" || options.is_channels_last))
    throw config_error(concat("--exact is ", options.exact_shards, " with ",
                              options.is_channels_last ? "--channels-last" : "--precision " + options.precision.text(),
                              ", whose kernels differ between processors; expected one of the two"));
  check_scale(options);
  if (device == torch::kCPU && (name == "tf32" || name == "f16"))
    throw device_error(concat("--precision ", options.precision, ": the processor does not compute so; expected ",
                              "--device cuda, or --precision f32 or bf16"));
  constexpr int kLeast = 8;
  if (device != torch::kCUDA || (name != "tf32" && name != "bf16")) return;
  if (const int major = compute_capability(); major < kLeast)
    throw device_error(concat("--precision ", options.precision, ": a visible GPU has compute capability ", major,
                              "; expected ", kLeast, " or more, or --precision f32 or f16"));
}

void check_layers(const ModelOptions& options, const Model& model) {
  bool has_filters = false, has_matrices = false;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    has_filters |= dynamic_cast<Conv2dImpl*>(module.get()) != nullptr;
    has_matrices |= dynamic_cast<LinearImpl*>(module.get()) != nullptr;
  }
  const auto refuse = [&](const std::string& flag, const char* layers) {
    throw config_error(concat(flag, " with --arch ", options.arch, ": the model has no ", layers,
                              ", so it would change nothing; expected a model that has them, or no ", flag));
  };
  if (options.is_channels_last && !has_filters) refuse("--channels-last", "convolutions (penstock::Conv2d)");
  if (precision_of(options).dtype && !has_filters && !has_matrices)
    refuse("--precision " + options.precision.text(),
           "convolutions or linear layers (penstock::Conv2d, penstock::Linear)");
}

std::string left_in_f32(const ModelOptions& options, const Model& model) {
  if (!precision_of(options).dtype) return "";
  constexpr size_t kMostNamed = 5;
  std::vector<std::string> names;
  const auto add = [&](const std::string& name, const torch::nn::Module& module) {
    if (dynamic_cast<const InPrecision*>(&module) != nullptr) return;
    const auto own = module.parameters(/*recurse=*/false);
    if (std::any_of(own.begin(), own.end(), [](const auto& parameter) { return parameter.dim() > 1; }))
      names.push_back(name);
  };
  add("the model itself", model);
  for (const auto& item : model.named_modules("", /*include_self=*/false)) add(item.key(), *item.value());
  if (names.empty()) return "";
  const size_t more = names.size() - std::min(names.size(), kMostNamed);
  names.resize(names.size() - more);
  return concat("--precision ", options.precision.text(), " with --arch ", options.arch.text(),
                ": f32 stay the weights of ", join(names), more > 0 ? concat(" and ", more, " more") : "",
                "; only penstock::Conv2d, Linear and Attention compute in half precision");
}

void set_matrix_precision(const ModelOptions& options) {
  if (options.precision->name != "tf32") return;
  at::globalContext().setAllowTF32CuDNN(true);
  at::globalContext().setAllowTF32CuBLAS(true);
}

}  // namespace penstock
