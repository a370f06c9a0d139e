// Pipeline: parses a list of transforms, refuses lists that cannot be one resample, and runs the list over a plan.
#include "augment/transform.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

constexpr int kDryRuns = 8;

bool excludes(const std::string& transform, const std::string& other) {
  const auto& names = TransformRegistry::entry(transform).traits.excludes;
  return std::find(names.begin(), names.end(), other) != names.end();
}

void check_excluded(const Spec& spec, const std::vector<std::string>& names_before) {
  for (const auto& before : names_before)
    if (excludes(spec.name(), before) || excludes(before, spec.name()))
      throw config_error(
          concat(spec.where(), ": comes after ", before, ", and the two undo each other; expected one of the two"));
}

void check_has_colors(const Spec& spec, const DataStatistics& statistics) {
  if (!is_raster(statistics.pixels, statistics.channels)) return;
  throw config_error(concat(spec.where(), ": pictures have ", pixels_text(statistics.pixels, statistics.channels),
                            "; expected 1 or 3 channels of u8"));
}

/// Those of the same pictures with three channels.
DataStatistics in_rgb(DataStatistics statistics) {
  if (statistics.channels != 1) return statistics;
  statistics.channels = 3;
  std::fill_n(statistics.mean.begin(), 3, statistics.mean[0]);
  std::fill_n(statistics.deviation.begin(), 3, statistics.deviation[0]);
  return statistics;
}

std::string off_epoch_text(const BatchMix& mix) {
  return mix.off_epoch == INT64_MAX ? "none" : std::to_string(mix.off_epoch);
}

/// The mix of a list of the transforms `names`, the last of which is `spec`, and which had the mix `before` without it.
BatchMix joined(const Spec& spec, const std::vector<std::string>& names, const BatchMix& before, const BatchMix& mix) {
  if (before.kind == BatchMix::Kind::kNone) return mix;
  if (std::count(names.begin(), names.end(), spec.name()) > 1)
    throw config_error(concat(spec.where(), ": occurs twice; expected at most one mixup and one cutmix"));
  const bool is_mixup = mix.kind == BatchMix::Kind::kMixup;
  if (before.off_epoch != mix.off_epoch)
    throw config_error(concat(spec.where(), ": off-epoch is ", off_epoch_text(mix), ", and that of ",
                              is_mixup ? "cutmix" : "mixup", " is ", off_epoch_text(before),
                              "; expected the same of both"));
  return is_mixup ? switched(mix, before) : switched(before, mix);
}

/// The hulls of boxes after a map that is along the axes.
std::vector<Box> moved_by(const Affine& map, std::span<const Box> boxes) {
  std::vector<Box> moved;
  for (const Box& box : boxes) {
    const auto x = [&](double of_x, double of_y) { return static_cast<float>(map.xx * of_x + map.xy * of_y + map.x0); };
    const auto y = [&](double of_x, double of_y) { return static_cast<float>(map.yx * of_x + map.yy * of_y + map.y0); };
    const auto [x0, x1] = std::minmax({x(box.x0, box.y0), x(box.x1, box.y1)});
    const auto [y0, y1] = std::minmax({y(box.x0, box.y0), y(box.x1, box.y1)});
    moved.push_back({x0, y0, x1, y1});
  }
  return moved;
}

}  // namespace

Pipeline::Pipeline(std::string_view spec_list, const DataStatistics& statistics)
    : statistics_(statistics), normalization_(Normalization::plain(statistics.pixels)) {
  std::vector<std::string> texts, names;  // of the transforms so far
  std::string of_levels;                  // the last transform that is not of geometry alone
  std::string erasing;                    // the first transform that erases
  std::string border_crop;                // text of the one whose border is copies
  std::string switching;                  // the mix that has a key for another one
  int erase_count = 0;
  for (const Spec& spec : parse_spec_list(TransformKind::kName, spec_list)) {
    std::shared_ptr<const Transform> transform = TransformRegistry::make(spec, statistics_);
    check_excluded(spec, names);
    names.push_back(spec.name());
    is_deterministic_ &= TransformRegistry::entry(spec.name()).traits.draws_nothing(spec);
    const auto effect = transform->effect();
    color_steps_ += transform->color_steps();
    if (color_steps_ > Plan::kMaxColorSteps)
      throw config_error(concat(spec.where(), ": brings the list to ", color_steps_, " colour steps; expected at most ",
                                Plan::kMaxColorSteps));
    if (effect == Transform::Effect::kColor || transform->color_steps() > 0) check_has_colors(spec, statistics_);
    if (transform->makes_rgb()) {
      if (!of_levels.empty())
        throw config_error(concat(spec.where(), ": comes after ", of_levels, "; expected geometry alone before it"));
      makes_rgb_ = true;
      statistics_ = in_rgb(statistics);
    }
    if (effect != Transform::Effect::kGeometry) of_levels = spec.name();
    if (effect == Transform::Effect::kColor && erase_count > 0)
      throw config_error(concat(spec.where(), ": comes after ", erasing,
                                ", whose rectangle it would have to recolour; "
                                "expected every colour transform before it"));
    if (effect == Transform::Effect::kGeometry && erase_count > 0) {
      throw config_error(concat(spec.where(), ": comes after ", erasing,
                                ", whose rectangle it would have to move; "
                                "expected every geometric transform before it"));
    }
    if (effect == Transform::Effect::kGeometry && !border_crop.empty() && !transform->mirrors())
      throw config_error(concat(spec.where(), ": comes after ", border_crop,
                                ", whose border it would have to move; expected flips alone after it"));
    if (const auto field = transform->boxes_field(); !field.empty()) {
      if (!boxes_field_.empty() && boxes_field_ != field)
        throw config_error(concat(spec.where(), ": looks at the boxes of ", in_quotes(field),
                                  ", after a transform that ", "looks at ", in_quotes(boxes_field_),
                                  "; expected the same field"));
      boxes_field_ = field;
    }
    if (mixes_chains_ && (effect == Transform::Effect::kGeometry || effect == Transform::Effect::kColor))
      throw config_error(concat(spec.where(),
                                ": comes after aug-mix, whose mixture it would have to change; expected "
                                "every transform of geometry and colour before it"));
    mixes_chains_ |= transform->mixes_chains();
    makes_noise_ |= transform->makes_noise();
    if (transform->repeats_border()) border_crop = spec.text();
    if (effect == Transform::Effect::kErase && erasing.empty()) erasing = spec.name();
    if (effect == Transform::Effect::kErase && ++erase_count > Plan::kMaxErased) {
      throw config_error(concat(spec.where(), ": occurs ", erase_count, " times; expected at most ", Plan::kMaxErased));
    }
    if (const auto* normalization = transform->normalization()) {
      if (has_normalize_) throw config_error(concat(spec.where(), ": occurs twice; expected at most one normalize"));
      has_normalize_ = true;
      normalization_ = *normalization;
    }
    if (const auto* mix = transform->batch_mix()) {
      batch_mix_ = joined(spec, names, batch_mix_, *mix);
      if (spec.has("switch")) switching = spec.where();
    }
    transforms_.push_back(std::move(transform));
    texts.push_back(spec.text());
  }
  if (batch_mix_.kind == BatchMix::Kind::kCutmix && !switching.empty())
    throw config_error(concat(switching, ": has the key switch, and the list no mixup; expected both, or no switch"));
  text_ = join(texts, ",");
  // Errors that only edit() can find should be reported now and not in a worker.
  for (uint64_t sample_id = 0; sample_id < kDryRuns; ++sample_id) plan(32, 32, 0, 0, sample_id);
}

std::string deterministic_part(const std::string& spec_list) {
  std::vector<std::string> kept;
  for (const Spec& spec : parse_spec_list(TransformKind::kName, spec_list)) {
    const TransformTraits& traits = TransformRegistry::entry(spec.name()).traits;
    if (traits.draws_nothing(spec))
      kept.push_back(spec.text());
    else if (traits.in_evaluation)
      kept.push_back(traits.in_evaluation(spec));
  }
  return join(kept, ",");
}

Plan Pipeline::plan(const Plan& whole, uint64_t seed, uint32_t epoch, uint64_t sample_id,
                    std::span<const Box> boxes) const {
  Plan plan = whole;
  const std::vector<Box> stored = boxes_field_.empty() ? std::vector<Box>() : moved_by(whole.map, boxes);
  for (size_t i = 0; i < transforms_.size(); ++i) {
    const Transform& transform = *transforms_[i];
    const bool alternates = transform.alternates();
    Rng rng(seed, alternates ? 0 : epoch, sample_id, static_cast<uint16_t>(i));
    if (boxes_field_.empty())
      transform.edit(plan, rng);
    else
      transform.edit_by_boxes(plan, rng, stored);
    if (alternates && epoch % 2 == 1) transform.alternate(plan);
  }
  return plan;
}

}  // namespace penstock
