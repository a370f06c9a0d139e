// aug-mix: mixes the picture with `mixture-width` pictures that chains of 1 to 3 random operations make of it
// (Hendrycks et al. 2020, AugMix, algorithm 1), as torchvision's AugMix (0.26).
//
// Deviations: shares are rounded to multiples of 2^-16, and add up to 1. With filter=bilinear, what lies outside of the
// picture is not blended with its outermost half pixel, as torchvision does on tensors.
#include "augment/draws/aug_mix.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "augment/draws/log_gamma_draw.h"
#include "augment/transform.h"
#include "augment/transforms/arguments.h"
#include "augment/transforms/filter_choice.h"

namespace penstock {
namespace {

constexpr int kMostChains = 8;
constexpr int kMostRandomDepth = 3;

struct AugMixOptions {
  int severity = 3, width = 3;
  int depth = -1;  // -1: each chain draws 1 to 3
  double alpha = 1;
  bool all_ops = true;
  Filter filter = Filter::kBilinear;
  float fill = 0;
};

/// Numbers of a Dirichlet distribution of which all parameters are alpha.
std::vector<double> dirichlet(int count, double alpha, Rng& rng) {
  std::vector<double> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(detail::log_gamma_draw(alpha, rng));
  const double greatest = *std::max_element(numbers.begin(), numbers.end());
  double sum = 0;
  for (double& number : numbers) sum += number = std::exp(number - greatest);
  for (double& number : numbers) number /= sum;
  return numbers;
}

class AugMix final : public Transform {
 public:
  explicit AugMix(const AugMixOptions& options) : options_(options) {}

  Effect effect() const override { return Effect::kColor; }
  bool mixes_chains() const override { return true; }
  void edit(Plan& plan, Rng& rng) const override {
    const double mixed_share = dirichlet(2, options_.alpha, rng)[1];
    const auto parts = dirichlet(options_.width, options_.alpha, rng);
    std::vector<Chain> chains;
    float own_share = 1;
    for (const double part : parts) {
      // 8 + 16 bits: an f32 holds every sum of shares of levels, so that a picture mixed with itself stays as it is.
      const auto share = static_cast<float>(std::floor(0x1p16 * mixed_share * part) * 0x1p-16);
      own_share -= share;
      chains.push_back(detail::aug_mix_chain(share, draws(rng), plan, options_.filter, options_.fill));
    }
    plan.mix(own_share, std::move(chains));
  }

 private:
  std::vector<detail::AugMixDraw> draws(Rng& rng) const {
    const int depth = options_.depth > 0 ? options_.depth : rng.between(1, kMostRandomDepth);
    const int op_count = options_.all_ops ? detail::kAugMixOpCount : detail::kAugMixFewOpCount;
    std::vector<detail::AugMixDraw> drawn(static_cast<size_t>(depth));
    for (auto& one : drawn) {
      one.op = detail::kAugMixOps[static_cast<size_t>(rng.between(0, op_count - 1))];
      one.bin = rng.between(0, options_.severity - 1);
      one.is_negative = rng.chance(0.5);
    }
    return drawn;
  }

  AugMixOptions options_;
};

int whole_number(const Spec& spec, const char* key, int fallback, int most) {
  const int number = spec.get(key, fallback);
  if (number < 1 || number > most)
    throw config_error(concat(spec.where(), ": ", key, " is ", number, "; expected 1 to ", most));
  return number;
}

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics& statistics) {
  AugMixOptions options;
  options.severity = whole_number(spec, "severity", options.severity, detail::kAugMixBins);
  options.width = whole_number(spec, "mixture-width", options.width, kMostChains);
  options.depth = spec.get("chain-depth", options.depth);
  if (options.depth != -1 && (options.depth < 1 || options.depth > Plan::kMaxColorSteps))
    throw config_error(concat(spec.where(), ": chain-depth is ", options.depth, "; expected 1 to ",
                              Plan::kMaxColorSteps, ", or -1 for 1 to ", kMostRandomDepth, " at random"));
  options.alpha = spec.get("alpha", options.alpha);
  if (!(options.alpha > 0 && options.alpha <= 1000))
    throw config_error(concat(spec.where(), ": alpha is ", options.alpha, "; expected more than 0, up to 1000"));
  options.all_ops = spec.get("all-ops", options.all_ops);
  options.filter = detail::filter(spec, "bilinear", false, /*may_be_random=*/false).filter;
  options.fill = detail::fill(spec, statistics).value_or(0.f);
  return std::make_unique<AugMix>(options);
}

const Registered<TransformKind> kRegistered{
    "aug-mix",
    {"severity", "mixture-width", "chain-depth", "alpha", "all-ops", "filter", "interpolation", "fill"},
    "mix the picture with mixture-width=N (1 to 8, default 3) pictures that random operations make of it, "
    "chain-depth=N of 1 to 8 (default -1: 1 to 3 at random), at magnitudes of severity=S (1 to 10, default 3); "
    "shares by alpha=A (1), all-ops=false without brightness, colour, contrast and sharpness, "
    "interpolation=bilinear|nearest|bicubic "
    "(default bilinear), fill=LEVEL from 0 to 255 (0)",
    make,
    {.test_spec = "aug-mix(severity=10)"}};

}  // namespace
}  // namespace penstock
