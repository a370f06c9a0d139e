// KernelBatch: works out what each kernel has to do for a batch of plans, and where it works in the scratch memory.
#include <algorithm>
#include <cstring>

#include "augment/resampling.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/device/picture_table.h"
#include "loader/jpeg/pixel_layout.h"

namespace penstock {

namespace detail {
namespace {

constexpr std::array<std::array<float, 4>, 3> kUnchangedColor{{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}};

/// Hands out the scratch memory from its begin on.
class Scratch {
 public:
  explicit Scratch(uint64_t& end) : end_(end) {}
  uint64_t take(uint64_t byte_count) {
    const uint64_t at = end_;
    end_ += stored_bytes(byte_count);
    return at;
  }

 private:
  uint64_t& end_;
};

void describe_picture(const StoredPicture& picture, const JpegGeometry& geometry, RowJob& job) {
  job.store = picture.store, job.store_bytes = picture.store_bytes, job.codebook = picture.codebook;
  job.component_count = geometry.component_count, job.mcu_blocks = geometry.mcu_blocks;
  job.mcu_columns = geometry.mcu_columns, job.mcu_rows = geometry.mcu_rows;
  job.is_ycc = picture.is_ycc;
  for (int i = 0; i < geometry.component_count; ++i) {
    const auto& component = geometry.components[i];
    job.components[i].h = component.h, job.components[i].v = component.v;
    job.components[i].first_block = component.first_block;
    job.components[i].quant = picture.quant[i];
  }
}

/// What is decoded of the picture. Requires a region that is not empty.
void describe_region(const JpegGeometry& geometry, const Region& region, int scale, RowJob& job, Scratch scratch) {
  const PixelLayout layout(geometry, region, scale);
  job.mcus = {layout.mcu_columns.begin, layout.mcu_rows.begin, layout.mcu_columns.end, layout.mcu_rows.end};
  job.pixel_x = region.x, job.pixel_y = region.y, job.pixel_width = region.width, job.pixel_height = region.height;
  job.pixels = scratch.take(static_cast<uint64_t>(region.width) * region.height * job.channels);
  for (int i = 0; i < geometry.component_count; ++i) {
    const ComponentLayout& from = layout.components[i];
    ComponentJob& to = job.components[i];
    to.dct_size = from.dct_size, to.expand_x = from.expand_x, to.expand_y = from.expand_y;
    to.is_fancy_x = from.is_fancy_x, to.is_fancy_y = from.is_fancy_y, to.width = from.width, to.height = from.height;
    to.blocks = {from.block_columns.begin, from.block_rows.begin, from.block_columns.end, from.block_rows.end};
    to.stride = from.block_columns.count() * from.dct_size;
    to.plane = scratch.take(static_cast<uint64_t>(to.stride) * from.block_rows.count() * from.dct_size);
  }
}

AxisJob axis_job(const Axis& axis, int pixel_end, Scratch scratch) {
  AxisJob job{};
  job.axis = axis, job.end = axis.output_size, job.tap_count = tap_count(axis), job.pixel_end = pixel_end;
  while (job.begin < job.end && !axis.holds(axis.center(job.begin))) ++job.begin;
  while (job.end > job.begin && !axis.holds(axis.center(job.end - 1))) --job.end;
  const auto count = static_cast<uint64_t>(axis.output_size);
  job.first = scratch.take(count * sizeof(int32_t));
  job.weights = scratch.take(count * static_cast<uint64_t>(job.tap_count) * sizeof(uint16_t));
  return job;
}

void describe_sampling(const Plan& plan, RowJob& job, Scratch scratch) {
  const Resampling resampling = resampling_of(plan);
  const Plan& seen = resampling.seen;
  job.view_width = seen.input_width, job.view_height = seen.input_height;
  job.window_x = job.pixel_x - plan.view.x, job.window_y = job.pixel_y - plan.view.y;
  const Affine& map = seen.map;
  const double rows[6] = {map.xx, map.xy, map.x0, map.yx, map.yy, map.y0};
  std::copy(rows, rows + 6, job.map);
  if (job.pixel_width == 0) {
    job.sampling = Sampling::kNothing;
  } else if (resampling.kind == Resampling::Kind::kFiltered) {
    job.sampling = Sampling::kFiltered;
    job.turns = resampling.turns;
    const int right = job.window_x + job.pixel_width, bottom = job.window_y + job.pixel_height;
    job.columns = axis_job(resampling.columns, resampling.turns ? bottom : right, scratch);
    job.rows = axis_job(resampling.rows, resampling.turns ? right : bottom, scratch);
  } else {
    job.sampling = resampling.kind == Resampling::Kind::kNearest ? Sampling::kNearest : Sampling::kBilinear;
  }
}

void describe_colors(const Plan& plan, RowJob& job) {
  static_assert(RowJob::kMaxErased == Plan::kMaxErased);
  std::copy(plan.fill.begin(), plan.fill.end(), job.fill);
  job.is_recolored = plan.color != kUnchangedColor;
  for (int i = 0; i < 3; ++i) std::copy(plan.color[i].begin(), plan.color[i].end(), job.color[i]);
  job.erased_count = plan.erased_count;
  for (int k = 0; k < plan.erased_count; ++k) {
    const ErasedRect& rect = plan.erased[k];
    job.erased[k] = {rect.top, rect.left, rect.bottom, rect.right, {rect.level[0], rect.level[1], rect.level[2]}};
  }
}

void describe_steps(const Plan& plan, RowJob& job, Scratch scratch) {
  static_assert(RowJob::kMaxColorSteps == Plan::kMaxColorSteps);
  static_assert(static_cast<int>(ColorOp::kBrightness) == ColorStepJob::kBrightness &&
                static_cast<int>(ColorOp::kContrast) == ColorStepJob::kContrast &&
                static_cast<int>(ColorOp::kSaturation) == ColorStepJob::kSaturation &&
                static_cast<int>(ColorOp::kHue) == ColorStepJob::kHue &&
                static_cast<int>(ColorOp::kSharpness) == ColorStepJob::kSharpness &&
                static_cast<int>(ColorOp::kPosterize) == ColorStepJob::kPosterize &&
                static_cast<int>(ColorOp::kSolarize) == ColorStepJob::kSolarize &&
                static_cast<int>(ColorOp::kAutoContrast) == ColorStepJob::kAutoContrast &&
                static_cast<int>(ColorOp::kEqualize) == ColorStepJob::kEqualize);
  job.color_step_count = plan.color_step_count;
  bool sharpens = false;
  for (int k = 0; k < plan.color_step_count; ++k) {
    const ColorStep& step = plan.color_steps[k];
    job.color_steps[k] = {static_cast<ColorStepJob::Op>(step.op), step.amount};
    sharpens |= step.op == ColorOp::kSharpness;
  }
  const uint64_t plane_bytes = static_cast<uint64_t>(plan.output_width) * plan.output_height * sizeof(float);
  if (plan.color_step_count > 0) job.planes = scratch.take(plane_bytes * static_cast<uint64_t>(job.channels));
  if (sharpens) job.plane_copy = scratch.take(plane_bytes);
}

uint64_t group_count(const RowJob& job) {
  const int across = divided_up(job.mcus.right, kGroupMcus) - job.mcus.left / kGroupMcus;
  return job.pixel_width == 0 ? 0 : static_cast<uint64_t>(across) * (job.mcus.bottom - job.mcus.top);
}

uint64_t tile_count(const RowJob& job) {
  return (static_cast<uint64_t>(job.pixel_width) * job.pixel_height + kPixelThreads - 1) / kPixelThreads;
}

Element element_of(Layout layout) {
  if (!is_planar(layout))
    throw bug_error(concat("device decoder: rows of layout ", layout_name(layout), "; expected f32, f16 or bf16"));
  return layout == Layout::kF32Nchw ? Element::kF32 : layout == Layout::kF16Nchw ? Element::kF16 : Element::kBf16;
}

}  // namespace
}  // namespace detail

struct KernelBatch::State {
  const DevicePictures::State& pictures;
  Normalization normalization;
  int channels;
  detail::Element element;
  int output_height = 0, output_width = 0;
  uint64_t scratch_bytes = 0, group_count = 0, tile_count = 0;
  bool has_filtered = false, has_steps = false;
  std::vector<detail::RowJob> jobs;
  detail::KernelArguments arguments{};

  void take_size(int height, int width) {
    if (jobs.empty()) output_height = height, output_width = width;
    if (height != output_height || width != output_width)
      throw bug_error(concat("device decoder: a row of ", height, "x", width, " after rows of ", output_height, "x",
                             output_width, "; expected one size"));
  }
  /// A row that has no tasks yet.
  detail::RowJob new_job() const {
    detail::RowJob job{};
    job.channels = channels;
    job.first_group = group_count, job.first_tile = tile_count;
    return job;
  }
};

KernelBatch::KernelBatch(const DevicePictures& pictures, const Normalization& normalization, int channels,
                         Layout layout)
    : state_(std::make_unique<State>(State{.pictures = *pictures.state_,
                                           .normalization = normalization,
                                           .channels = channels,
                                           .element = detail::element_of(layout),
                                           .jobs = {}})) {}
KernelBatch::~KernelBatch() = default;

void KernelBatch::clear() {
  state_->jobs.clear();
  state_->scratch_bytes = state_->group_count = state_->tile_count = 0;
  state_->has_filtered = state_->has_steps = false;
}

void KernelBatch::add(size_t picture, const Plan& given, bool scales_dct) {
  State& state = *state_;
  state.take_size(given.output_height, given.output_width);
  const detail::StoredPicture& stored = state.pictures.pictures[picture];
  const detail::JpegGeometry geometry = stored.geometry();
  if (geometry.component_count > state.channels)
    throw bug_error(concat("device decoder: picture ", picture, " has ", geometry.component_count,
                           " components for rows of ", state.channels,
                           " channels; expected as many channels at least"));
  const int scale = scales_dct ? dct_scale(given) : 8;
  const Plan plan = scale == 8 ? given : at_dct_scale(given, scale);
  const Region region = footprint(plan);
  const detail::Scratch scratch(state.scratch_bytes);

  detail::RowJob job = state.new_job();
  detail::describe_picture(stored, geometry, job);
  if (region.width > 0 && region.height > 0) detail::describe_region(geometry, region, scale, job, scratch);
  detail::describe_sampling(plan, job, scratch);
  detail::describe_colors(plan, job);
  detail::describe_steps(plan, job, scratch);
  state.group_count += detail::group_count(job);
  state.tile_count += detail::tile_count(job);
  state.has_filtered |= job.sampling == detail::Sampling::kFiltered;
  state.has_steps |= job.color_step_count > 0;
  state.jobs.push_back(job);
}

void KernelBatch::add_empty(int output_height, int output_width) {
  state_->take_size(output_height, output_width);
  detail::RowJob job = state_->new_job();
  job.sampling = detail::Sampling::kNothing;
  state_->jobs.push_back(job);
}

std::span<const std::byte> KernelBatch::jobs() const { return std::as_bytes(std::span(state_->jobs)); }
uint64_t KernelBatch::scratch_bytes() const { return state_->scratch_bytes; }

std::span<const std::byte> KernelBatch::arguments(const DeviceAddresses& addresses) {
  const State& state = *state_;
  auto& to = state_->arguments;
  to.stores = static_cast<const uint32_t*>(addresses.stores);
  to.codebooks = static_cast<const detail::DeviceCodebook*>(addresses.codebooks);
  to.quant_tables = static_cast<const detail::QuantTable*>(addresses.quant_tables);
  to.jobs = static_cast<const detail::RowJob*>(addresses.jobs);
  to.scratch = static_cast<uint8_t*>(addresses.scratch);
  to.output = addresses.output, to.element = state.element;
  to.status = addresses.status;
  to.row_count = static_cast<int32_t>(state.jobs.size());
  to.output_height = state.output_height, to.output_width = state.output_width, to.channels = state.channels;
  for (int i = 0; i < 3; ++i) to.scale[i] = state.normalization.scale[i], to.bias[i] = state.normalization.bias[i];
  return std::as_bytes(std::span(&to, 1));
}

std::array<KernelLaunch, KernelBatch::kKernelCount> KernelBatch::launches() const {
  const State& state = *state_;
  const auto blocks = [](int count, int threads) { return static_cast<uint64_t>(detail::divided_up(count, threads)); };
  const uint64_t rows = state.jobs.size();
  const uint64_t tap_blocks =
      blocks(state.output_width, detail::kTapThreads) + blocks(state.output_height, detail::kTapThreads);
  return {{{"penstock_weigh", detail::kTapThreads, state.has_filtered ? rows * tap_blocks : 0},
           {"penstock_decode", detail::kGroupThreads, state.group_count},
           {"penstock_color", detail::kPixelThreads, state.tile_count},
           {"penstock_render", detail::kRenderThreads,
            rows * static_cast<uint64_t>(state.output_height) * blocks(state.output_width, detail::kRenderThreads)},
           {"penstock_recolor", detail::kRecolorThreads, state.has_steps ? rows : 0}}};
}

}  // namespace penstock
