// Run precision: checks.
#include "train/run/run_precision.h"

#include <ATen/Context.h>
#ifdef PENSTOCK_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/spec.h"
#include "core/text.h"

namespace penstock {
namespace {

/// Gradients of a loss that is the mean over a batch have a factor of 1 / batch size, and f16 rounds what is below 3e-8
/// to 0. 1024 takes off that factor for batches of about a thousand, and leaves 65504 / 1024 = 64 for the largest
/// gradient.
constexpr double kF16Scale = 1024;

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

}  // namespace

Precision parse_precision(const std::string& text) {
  const Spec typed = parse_spec("precision", text);
  const std::vector<std::string> known{"bf16", "f16", "f32", "tf32"};
  if (std::find(known.begin(), known.end(), typed.name()) == known.end())
    throw config_error(concat("--precision: ", unknown_name("precision", typed.name(), known)));
  const bool is_f16 = typed.name() == "f16";
  const Spec spec = typed.with_keys(is_f16 ? std::vector<std::string>{"scale"} : std::vector<std::string>());
  if (typed.name() == "bf16") return {.dtype = torch::kBFloat16};
  if (!is_f16) return {};
  const double scale = spec.get("scale", kF16Scale);
  int exponent = 0;
  if (!(scale >= 1 && scale <= 65536 && std::frexp(scale, &exponent) == 0.5))
    throw config_error(concat("--precision f16: scale is ", scale, "; expected a power of two from 1 to 65536"));
  return {.dtype = torch::kHalf, .gradient_scale = scale};
}

Precision precision_of(const TrainOptions& options) {
  Precision precision = parse_precision(options.precision);
  precision.is_channels_last = options.is_channels_last;
  return precision;
}

void check_precision(const TrainOptions& options, torch::DeviceType device) {
  const std::string name = parse_spec("precision", options.precision).name();
  if (options.exact_shards > 0 && (name != "f32" || options.is_channels_last))
    throw config_error(concat("--exact is ", options.exact_shards, " with ",
                              options.is_channels_last ? "--channels-last" : "--precision " + options.precision,
                              ", whose kernels differ between processors; expected one of the two"));
  if (device == torch::kCPU && (name == "tf32" || name == "f16"))
    throw device_error(concat("--precision ", options.precision, ": the processor does not compute so; expected ",
                              "--device cuda, or --precision f32 or bf16"));
  constexpr int kLeast = 8;
  if (device != torch::kCUDA || (name != "tf32" && name != "bf16")) return;
  if (const int major = compute_capability(); major < kLeast)
    throw device_error(concat("--precision ", options.precision, ": a visible GPU has compute capability ", major,
                              "; expected ", kLeast, " or more, or --precision f32 or f16"));
}

void set_matrix_precision(const TrainOptions& options) {
  if (parse_spec("precision", options.precision).name() != "tf32") return;
  at::globalContext().setAllowTF32CuDNN(true);
  at::globalContext().setAllowTF32CuBLAS(true);
}

}  // namespace penstock
