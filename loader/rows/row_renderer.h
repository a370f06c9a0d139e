// RowRenderer: a sample as one pipeline of transforms shows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "augment/render.h"
#include "augment/transform.h"
#include "core/error.h"
#include "loader/codecs/codec.h"
#include "loader/rows/loader_options.h"
#include "loader/rows/mender.h"
#include "loader/rows/view_parts.h"
#include "loader/shards/dataset.h"

namespace penstock::detail {

/// Plan, decode, render. Thread-safety: immutable; each thread uses a DecodeScratch of its own.
class RowRenderer {
 public:
  /// Finds the extent of rendered samples from the plan of the first sample and the manifest's channels. `view`: the
  /// number of the view, whose random numbers are its own; 0 for the pictures of a batch. Throws config_error.
  RowRenderer(std::shared_ptr<const Dataset> dataset, Pipeline pipeline, const LoaderOptions& options, int view = 0);

  const Pipeline& pipeline() const { return pipeline_; }
  const Extent& extent() const { return extent_; }
  Layout layout() const { return layout_; }

  /// Throws config_error where the sample is of another size than the others after the transforms.
  Plan plan_of(int64_t epoch, const FoundRow& row) const;
  /// Sets all of `part` but its leader and its output.
  void want(const Plan& plan, const FoundRow& row, ViewPart& part) const;
  /// At least `region` of the picture at `scale` eighths, until `scratch` is used again. Throws what the codec does,
  /// and names the sample.
  Picture decode(const FoundRow& row, const Region& region, int scale, DecodeScratch& scratch) const;
  /// Whether share_regions() must count what lies above a region.
  bool costs_what_is_above(const Sample& sample) const {
    return !codec_for(sample.encoding).decodes_region_alone(sample, decode_);
  }
  /// Writes rendered_bytes() of the extent. Requires a picture of what the plan looks at, at its scale.
  void render_plan(const Picture& picture, const Plan& scaled, std::byte* output) const {
    render(picture, scaled, pipeline_.normalization(), layout_, output);
  }
  /// All of this for one view alone. `on_decoded` is called between decoding and rendering.
  template <class OnDecoded>
  void render_row(const Plan& plan, const FoundRow& row, std::byte* output, DecodeScratch& scratch,
                  const OnDecoded& on_decoded) const {
    const int scale = scale_of(row.sample, plan);
    const auto render_with = [&](const Plan& scaled) {
      const Picture picture = decode(row, region_of(row.sample, scaled), scale, scratch);
      on_decoded();
      render_plan(picture, scaled, output);
    };
    scale == kFullScale ? render_with(plan) : render_with(at_dct_scale(plan, scale));
  }

 private:
  static constexpr int kFullScale = 8;  // DCT scale, in eighths

  Extent find_extent() const;
  Error other_size(const FoundRow& row, int height, int width) const;  ///< Says which transforms would help.
  int scale_of(const Sample& sample, const Plan& plan) const;
  static Region region_of(const Sample& sample, const Plan& plan);

  std::shared_ptr<const Dataset> dataset_;
  Pipeline pipeline_;
  uint64_t seed_;
  Layout layout_;
  DecodePath decode_;
  bool scales_dct_;
  std::optional<size_t> boxes_field_;  // the number of the field that the transforms look at
  Extent extent_;                      // of one rendered sample
};

}  // namespace penstock::detail
