// KernelBatch: works out what each kernel has to do for a batch of plans, and where it works in the scratch memory.
// run_on_cpu(): the kernels as loops over blocks and threads.
#include "loader/device/device_renderer.h"

#include <algorithm>
#include <cstring>

#include "augment/plan/footprint.h"
#include "augment/plan/resampling.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/device/color_kernel.h"
#include "loader/device/decode_kernel.h"
#include "loader/device/picture_table.h"
#include "loader/device/recolor_kernel.h"
#include "loader/device/render_kernel.h"
#include "loader/jpeg/pixels/pixel_layout.h"

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

void describe_pixels(const Region& region, RowJob& job) {
  job.pixel_x = region.x, job.pixel_y = region.y, job.pixel_width = region.width, job.pixel_height = region.height;
}

/// Where the pixels of the region are among those of the stored picture.
void describe_raw(const StoredPicture& picture, const Region& region, RowJob& job) {
  describe_pixels(region, job);
  job.are_pixels_stored = 1;
  job.pixel_channels = picture.channels, job.pixel_columns = picture.width;
  const auto first = static_cast<uint64_t>(region.y) * picture.width + static_cast<uint64_t>(region.x);
  job.pixels = picture.store + first * picture.channels;
}

/// What is decoded of the picture. Requires a region that is not empty.
void describe_region(const JpegGeometry& geometry, const Region& region, int scale, RowJob& job, Scratch scratch) {
  const PixelLayout layout(geometry, region, scale);
  job.mcus = {layout.mcu_columns.begin, layout.mcu_rows.begin, layout.mcu_columns.end, layout.mcu_rows.end};
  describe_pixels(region, job);
  job.pixel_channels = job.channels, job.pixel_columns = region.width;
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
  job.weights = scratch.take(count * static_cast<uint64_t>(job.tap_count) * sizeof(int16_t));
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
    job.sampling = resampling.kind == Resampling::Kind::kNearest   ? Sampling::kNearest
                   : resampling.kind == Resampling::Kind::kBicubic ? Sampling::kBicubic
                                                                   : Sampling::kBilinear;
  }
}

void describe_border(const Plan& plan, RowJob& job) {
  const Region& inside = plan.inside;
  job.border = plan.border;
  job.inside = {inside.x, inside.y, inside.x + inside.width, inside.y + inside.height};
}

void describe_colors(const Plan& plan, RowJob& job) {
  static_assert(RowJob::kMaxErased == Plan::kMaxErased);
  std::copy(plan.fill.begin(), plan.fill.end(), job.fill);
  job.is_recolored = plan.color != kUnchangedColor;
  for (int i = 0; i < 3; ++i) std::copy(plan.color[i].begin(), plan.color[i].end(), job.color[i]);
  if (plan.chains) throw bug_error("device renderer: a plan mixes in chains; expected none (Pipeline::mixes_chains())");
  job.erased_count = plan.erased_count;
  for (int k = 0; k < plan.erased_count; ++k) {
    const ErasedRect& rect = plan.erased[k];
    if (rect.noise_key)
      throw bug_error("device renderer: a plan erases with noise; expected a level (Pipeline::makes_noise())");
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
                static_cast<int>(ColorOp::kEqualize) == ColorStepJob::kEqualize &&
                static_cast<int>(ColorOp::kSolarizeAdd) == ColorStepJob::kSolarizeAdd &&
                static_cast<int>(ColorOp::kGaussianBlur) == ColorStepJob::kGaussianBlur);
  job.color_step_count = plan.color_step_count;
  bool needs_copy = false;
  for (int k = 0; k < plan.color_step_count; ++k) {
    const ColorStep& step = plan.color_steps[k];
    const bool blurs = step.op == ColorOp::kGaussianBlur;
    const float amount = blurs ? detail::blur_shape(step.amount, step.kernel) : step.amount;
    job.color_steps[k] = {static_cast<ColorStepJob::Op>(step.op), amount, step.kernel, step.rounding};
    needs_copy |= blurs || step.op == ColorOp::kSharpness;
  }
  const uint64_t plane_bytes = static_cast<uint64_t>(plan.output_width) * plan.output_height * sizeof(float);
  if (plan.color_step_count > 0) job.planes = scratch.take(plane_bytes * static_cast<uint64_t>(job.channels));
  if (needs_copy) job.plane_copy = scratch.take(plane_bytes);
}

uint64_t group_count(const RowJob& job) {
  const int across = divided_up(job.mcus.right, kGroupMcus) - job.mcus.left / kGroupMcus;
  return static_cast<uint64_t>(across) * (job.mcus.bottom - job.mcus.top);
}

uint64_t tile_count(const RowJob& job) {
  return job.are_pixels_stored
             ? 0
             : (static_cast<uint64_t>(job.pixel_width) * job.pixel_height + kPixelThreads - 1) / kPixelThreads;
}

Element element_of(Layout layout) {
  if (!is_planar(layout))
    throw bug_error(concat("device renderer: rows of layout ", layout_name(layout), "; expected f32, f16 or bf16"));
  return layout == Layout::kF32Nchw ? Element::kF32 : layout == Layout::kF16Nchw ? Element::kF16 : Element::kBf16;
}

}  // namespace
}  // namespace detail

struct KernelBatch::State {
  const DevicePictures::State& pictures;
  Extent output;
  KernelNeeds needs;
  std::vector<detail::RowJob> jobs;

  /// A row that has no tasks yet.
  detail::RowJob new_job() const {
    detail::RowJob job{};
    job.channels = output.channels;
    job.first_group = needs.group_count, job.first_tile = needs.tile_count;
    return job;
  }
};

KernelBatch::KernelBatch(const DevicePictures& pictures, const Extent& output)
    : state_(std::make_unique<State>(State{.pictures = *pictures.state_, .output = output, .needs = {}, .jobs = {}})) {}
KernelBatch::~KernelBatch() = default;

void KernelBatch::clear() {
  state_->jobs.clear();
  state_->needs = {};
}

void KernelBatch::add(size_t picture, const Plan& given, bool scales_dct) {
  State& state = *state_;
  if (given.output_height != state.output.height || given.output_width != state.output.width)
    throw bug_error(concat("device renderer: a row of ", given.output_height, "x", given.output_width, "; expected ",
                           state.output.height, "x", state.output.width));
  const detail::StoredPicture& stored = state.pictures.pictures[picture];
  if (stored.channels > state.output.channels)
    throw bug_error(concat("device renderer: picture ", picture, " has ", int{stored.channels}, " channels; expected ",
                           state.output.channels, " at most"));
  detail::RowJob job = state.new_job();
  detail::Scratch scratch(state.needs.scratch_bytes);
  const Plan* plan = &given;
  Plan scaled;
  if (stored.is_raw) {
    detail::describe_raw(stored, footprint(given), job);
  } else {
    const int scale = scales_dct ? dct_scale(given) : 8;
    if (scale != 8) plan = &(scaled = at_dct_scale(given, scale));
    const detail::JpegGeometry geometry = stored.geometry();
    detail::describe_picture(stored, geometry, job);
    const Region region = footprint(*plan);
    if (region.width > 0 && region.height > 0) detail::describe_region(geometry, region, scale, job, scratch);
  }
  detail::describe_sampling(*plan, job, scratch);
  detail::describe_border(*plan, job);
  detail::describe_colors(*plan, job);
  detail::describe_steps(*plan, job, scratch);
  state.needs.group_count += detail::group_count(job);
  state.needs.tile_count += detail::tile_count(job);
  state.needs.weighs |= job.sampling == detail::Sampling::kFiltered;
  state.needs.recolors |= job.color_step_count > 0;
  state.jobs.push_back(job);
}

void KernelBatch::add_empty() {
  detail::RowJob job = state_->new_job();
  job.sampling = detail::Sampling::kZeros;
  state_->jobs.push_back(job);
}

const size_t KernelBatch::kJobBytes = sizeof(detail::RowJob);
std::span<const std::byte> KernelBatch::jobs() const { return std::as_bytes(std::span(state_->jobs)); }
const KernelNeeds& KernelBatch::needs() const { return state_->needs; }

std::vector<std::byte> kernel_arguments(const BatchShape& shape, const DeviceAddresses& addresses) {
  detail::KernelArguments to{};
  to.stores = static_cast<const uint32_t*>(addresses.stores);
  to.codebooks = static_cast<const detail::DeviceCodebook*>(addresses.codebooks);
  to.quant_tables = static_cast<const detail::QuantTable*>(addresses.quant_tables);
  to.jobs = static_cast<const detail::RowJob*>(addresses.jobs);
  to.scratch = static_cast<uint8_t*>(addresses.scratch);
  to.output = addresses.output, to.element = detail::element_of(shape.layout);
  to.status = addresses.status;
  to.row_count = shape.rows;
  to.output_height = shape.output.height, to.output_width = shape.output.width, to.channels = shape.output.channels;
  for (int i = 0; i < 3; ++i) to.scale[i] = shape.normalization.scale[i], to.bias[i] = shape.normalization.bias[i];
  const auto bytes = std::as_bytes(std::span(&to, 1));
  return {bytes.begin(), bytes.end()};
}

KernelLaunches kernel_launches(const BatchShape& shape, const KernelNeeds& needs) {
  const auto blocks = [](int count, int threads) { return static_cast<uint64_t>(detail::divided_up(count, threads)); };
  const auto& [height, width, channels] = shape.output;
  const auto rows = static_cast<uint64_t>(shape.rows);
  const uint64_t tap_blocks = blocks(width, detail::kTapThreads) + blocks(height, detail::kTapThreads);
  return {{{"penstock_weigh", detail::kTapThreads, needs.weighs ? rows * tap_blocks : 0},
           {"penstock_decode", detail::kGroupThreads, needs.group_count},
           {"penstock_color", detail::kPixelThreads, needs.tile_count},
           {"penstock_render", detail::kRenderThreads,
            rows * static_cast<uint64_t>(height) * blocks(width, detail::kRenderThreads)},
           {"penstock_recolor", detail::kRecolorThreads, needs.recolors ? rows : 0}}};
}

void run_on_cpu(const KernelLaunches& launches, std::span<const std::byte> arguments, bool is_reversed) {
  detail::KernelArguments given;
  if (arguments.size() != sizeof given)
    throw bug_error(concat("device renderer: ", arguments.size(), " bytes of arguments; expected ", sizeof given));
  std::memcpy(&given, arguments.data(), sizeof given);
  const auto group = std::make_unique<detail::GroupShared>();
  const auto render = std::make_unique<detail::RenderShared>();
  const auto recolor = std::make_unique<detail::RecolorShared>();
  const auto [weigh_launch, decode_launch, color_launch, render_launch, recolor_launch] = launches;
  const auto run = [&](const KernelLaunch& launch, const auto& kernel) {
    const ThreadBlock block{launch.threads, is_reversed};
    for (uint64_t task = 0; task < launch.blocks; ++task) kernel(block, task);
  };
  run(weigh_launch, [&](const ThreadBlock& block, uint64_t task) { detail::weigh_taps_of(block, given, task); });
  run(decode_launch,
      [&](const ThreadBlock& block, uint64_t task) { detail::decode_group(block, *group, given, task); });
  run(color_launch, [&](const ThreadBlock& block, uint64_t task) { detail::color_tile(block, given, task); });
  run(render_launch, [&](const ThreadBlock& block, uint64_t task) { detail::render_row(block, *render, given, task); });
  run(recolor_launch,
      [&](const ThreadBlock& block, uint64_t task) { detail::recolor_row(block, *recolor, given, task); });
}

}  // namespace penstock
