// normalize: (level / 255 - mean) / std, per channel; level / 65535 of u16, and f32 as it is. Without keys, mean and
// std are those of the data set. In a channel whose level is the same everywhere (std 0), only the mean is subtracted.
#include <memory>

#include "augment/transform.h"
#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

class Normalize final : public Transform {
 public:
  explicit Normalize(const Normalization& normalization) : normalization_(normalization) {}

  Effect effect() const override { return Effect::kNormalize; }
  void edit(Plan&, Rng&) const override {}  // done by render(), or by the device
  const Normalization* normalization() const override { return &normalization_; }

 private:
  Normalization normalization_;
};

/// One number for all channels, or one number for each.
PerChannel<double> per_channel(const Spec& spec, const char* key, const PerChannel<double>& fallback, int channels) {
  if (!spec.has(key)) return fallback;
  const auto values = spec.get(key, std::vector<double>{});
  if (values.size() != 1 && values.size() != static_cast<size_t>(channels))
    throw config_error(concat(spec.where(), ": ", key, " has ", values.size(), " numbers; expected 1",
                              channels == 1 ? "" : concat(" or ", channels), " for pictures of ", channels,
                              channels == 1 ? " channel" : " channels"));
  PerChannel<double> each{};
  for (size_t i = 0; i < static_cast<size_t>(channels); ++i) each[i] = values[values.size() == 1 ? 0 : i];
  return each;
}

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics& statistics) {
  if (spec.has("mean") != spec.has("std"))
    throw config_error(concat(spec.where(), ": ", spec.has("mean") ? "mean without std" : "std without mean",
                              "; expected both, or neither for the data set's own"));
  const auto mean = per_channel(spec, "mean", statistics.mean, statistics.channels);
  auto deviation = per_channel(spec, "std", statistics.deviation, statistics.channels);
  for (int i = 0; i < statistics.channels; ++i) {
    if (deviation[i] > 0) continue;
    if (spec.has("std"))
      throw config_error(concat(spec.where(), ": std of channel ", i, " is ", deviation[i], "; expected more than 0"));
    deviation[i] = 1;
  }
  return std::make_unique<Normalize>(Normalization::of(mean, deviation, statistics.white()));
}

const Registered<TransformKind> kRegistered{
    "normalize",
    {"mean", "std"},
    "(level / 255 - mean) / std in each channel: mean=a:b:c,std=a:b:c (default: those of the data set)",
    make,
    {.test_spec = "normalize(mean=0.2,std=0.7)", .is_deterministic = true}};

}  // namespace
}  // namespace penstock
