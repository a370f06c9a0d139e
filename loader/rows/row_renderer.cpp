// RowRenderer: sample -> plan -> pixels.
#include "loader/rows/row_renderer.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "augment/plan/footprint.h"
#include "core/limits.h"
#include "core/text.h"
#include "loader/rows/sample_boxes.h"

namespace penstock::detail {
namespace {

/// View 0 has the seed itself.
uint64_t seed_of_view(uint64_t seed, int view) {
  return view == 0 ? seed : keyed_bits(seed, static_cast<uint64_t>(view), 0xE1);
}

/// Levels are delivered in their own type alone.
void check_layout(Layout layout, const Manifest& manifest) {
  const PixelType own = manifest.pixels;
  if (!has_levels(layout) || (layout == Layout::kU8Nhwc ? PixelType::kU8 : PixelType::kU16) == own) return;
  throw config_error(concat("layout ", layout_name(layout), ": pictures have ", pixels_text(own, manifest.channels),
                            "; expected f32, f16 or bf16",
                            own == PixelType::kF32 ? "" : concat(", or ", pixel_type_name(own))));
}

std::string size_text(int height, int width) { return concat(height, " x ", width); }

}  // namespace

RowRenderer::RowRenderer(std::shared_ptr<const Dataset> dataset, Pipeline pipeline, const LoaderOptions& options,
                         int view)
    : dataset_(std::move(dataset)),
      pipeline_(std::move(pipeline)),
      seed_(seed_of_view(options.seed, view)),
      layout_(options.layout),
      decode_(options.decode),
      scales_dct_(scales_dct(options.dct_scale, pipeline_)),
      boxes_field_(boxes_field(pipeline_, *dataset_)),
      extent_(find_extent()) {
  check_layout(layout_, dataset_->manifest());
}

Extent RowRenderer::find_extent() const {
  const auto& manifest = dataset_->manifest();
  const Sample nothing{.extent = {1, 1, manifest.channels}};
  const Sample example = dataset_->example().value_or(nothing);
  const Plan whole = Plan::upright(example.orientation, example.extent.height, example.extent.width);
  const Plan plan = pipeline_.plan(whole, seed_, 0, example.id);
  return {plan.output_height, plan.output_width, pipeline_.channels(manifest.channels)};
}

Plan RowRenderer::plan_of(int64_t epoch, const FoundRow& row) const {
  const Extent& extent = row.sample.extent;
  const Plan whole = Plan::upright(row.sample.orientation, extent.height, extent.width);
  const Plan plan =
      pipeline_.plan(whole, row.copy == 0 ? seed_ : seed_of_copy(seed_, row.copy), static_cast<uint32_t>(epoch),
                     row.sample.id, boxes_field_ ? boxes_of(*dataset_, row.index, *boxes_field_) : std::vector<Box>());
  if (plan.output_height != extent_.height || plan.output_width != extent_.width)
    throw other_size(row, plan.output_height, plan.output_width);
  return plan;
}

Error RowRenderer::other_size(const FoundRow& row, int height, int width) const {
  const Sample& sample = row.sample;
  const std::string name = concat("sample ", row.index, " (id ", sample.id, ") of ", dataset_->folder().string());
  const int side = std::min(extent_.height, extent_.width);
  return config_error(concat(sample.path.empty() ? name : concat(sample.path, ", ", name), ": is ",
                             size_text(height, width), " after the transforms, and the first sample is ",
                             size_text(extent_.height, extent_.width),
                             "; expected all of one size: add resize(height=", extent_.height, ",width=", extent_.width,
                             "), center-crop(size=", side, ") or random-resized-crop(size=", side, ")"));
}

/// The DCT scale at which a JPEG is decoded for this plan, in eighths.
int RowRenderer::scale_of(const Sample& sample, const Plan& plan) const {
  return scales_dct_ && codec_traits(sample.encoding).is_scalable ? dct_scale(plan) : kFullScale;
}

/// What `plan` looks at. Raw pixels are used where they are, so that the footprint of the plan need not be computed
/// (which takes 4 % of the time of an MNIST sample).
Region RowRenderer::region_of(const Sample& sample, const Plan& plan) {
  return is_raw(sample.encoding) ? Region{0, 0, sample.extent.width, sample.extent.height} : footprint(plan);
}

void RowRenderer::want(const Plan& plan, const FoundRow& row, ViewPart& part) const {
  part.plan = plan;
  part.dct_scale = scale_of(row.sample, plan);
  part.scaled = part.dct_scale == kFullScale ? plan : at_dct_scale(plan, part.dct_scale);
  part.region = region_of(row.sample, part.scaled);
}

Picture RowRenderer::decode(const FoundRow& row, const Region& region, int scale, DecodeScratch& scratch) const {
  const auto& [height, width, channels] = row.sample.extent;
  const DecodeRequest request{.region = region, .dct_scale = scale, .channels = extent_.channels, .path = decode_};
  try {
    return codec_for(row.sample.encoding).decode(row.sample, request, scratch);
  } catch (const Error& error) {
    throw Error(error.kind(), concat(dataset_->where(row.index), ": ", error.what()));
  } catch (const std::bad_alloc&) {
    throw memory_error(dataset_->where(row.index),
                       concat("decoding ", width, " x ", height, " x ", channels, " pixels"),
                       "fewer workers, or smaller pictures (shardprep pack --resize)");
  }
}

}  // namespace penstock::detail
