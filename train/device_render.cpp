// device_render(): coordinates, gathering of pixels, colour, normalisation, erased rectangles.
#include "train/device_render.h"

#include <array>

#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

// Columns of PlanBatch::rows. Each erased rectangle has top, left, bottom, right and three levels.
enum Column { kPicture, kLabel, kWeight, kFilter, kMap, kFill = kMap + 6, kColor = kFill + 3, kErased = kColor + 12 };
constexpr int kErasedColumns = 7;
constexpr int kColumns = kErased + Plan::kMaxErased * kErasedColumns;

constexpr std::array<std::array<float, 4>, 3> kSameColor{{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}};

void pack_row(const PlannedRow& row, double* to) {
  const Plan& plan = row.plan;
  to[kPicture] = static_cast<double>(row.picture);
  to[kLabel] = static_cast<double>(row.label);
  to[kWeight] = row.weight;
  to[kFilter] = plan.filter == Filter::kBilinear ? 1 : 0;
  const double map[6] = {plan.map.xx, plan.map.xy, plan.map.x0, plan.map.yx, plan.map.yy, plan.map.y0};
  std::copy(map, map + 6, to + kMap);
  std::copy(plan.fill.begin(), plan.fill.end(), to + kFill);
  for (int i = 0; i < 3; ++i) std::copy(plan.color[i].begin(), plan.color[i].end(), to + kColor + 4 * i);
  for (int k = 0; k < Plan::kMaxErased; ++k) {
    const ErasedRect rect = k < plan.erased_count ? plan.erased[k] : ErasedRect{};
    double* out = to + kErased + k * kErasedColumns;
    out[0] = rect.top, out[1] = rect.left, out[2] = rect.bottom, out[3] = rect.right;
    std::copy(rect.level.begin(), rect.level.end(), out + 4);
  }
}

/// Renders one batch of plans. N is the number of rows.
class BatchRenderer {
 public:
  BatchRenderer(const torch::Tensor& pictures, const PlanBatch& plans, const DeviceNormalization& normalization)
      : plans_(plans),
        device_(pictures.device()),
        input_height_(pictures.size(1)),
        input_width_(pictures.size(2)),
        channels_(pictures.size(3)),
        pixels_(pictures.view({-1, channels_})),
        scale_(normalization.scale),
        bias_(normalization.bias) {}

  torch::Tensor render() {
    work_out_coordinates();
    torch::Tensor levels;  // f32 N x C x H x W
    if (!plans_.needs.is_bilinear)
      levels = nearest();
    else if (!plans_.needs.is_nearest)
      levels = bilinear();
    else
      levels = torch::where(column(kFilter).view({-1, 1, 1, 1}).gt(0), bilinear(), nearest());
    levels = torch::where(inside_.unsqueeze(1), levels, levels_at(kFill));
    if (plans_.needs.is_recolored) levels = recolored(levels);
    auto rendered = erased(levels * scale_ + bias_).contiguous();
    if (plans_.needs.is_substituted) rendered.mul_(plans_.weights().view({-1, 1, 1, 1}));
    return rendered;
  }

 private:
  torch::Tensor column(int index) const { return plans_.rows.select(1, index); }
  torch::Tensor f32(int index) const { return column(index).to(torch::kFloat32).view({-1, 1, 1}); }

  /// The C levels in the columns from `first` on, N x C x 1 x 1.
  torch::Tensor levels_at(int first) const {
    return plans_.rows.narrow(1, first, channels_).to(torch::kFloat32).view({-1, channels_, 1, 1});
  }

  /// Sets x_ and y_, f32 N x H x W: the place in the picture that the centre of each output pixel shows; and inside_:
  /// whether that place is inside the picture.
  void work_out_coordinates() {
    const auto rows =
        (torch::arange(plans_.output.height, torch::dtype(torch::kFloat64).device(device_)) + 0.5).view({1, -1});
    const auto columns =
        (torch::arange(plans_.output.width, torch::dtype(torch::kFloat32).device(device_)) + 0.5).view({1, 1, -1});
    const auto coordinate = [&](int first) {
      const auto at_row = column(first + 1).unsqueeze(1) * rows + column(first + 2).unsqueeze(1);
      return columns * f32(first) + at_row.to(torch::kFloat32).unsqueeze(2);
    };
    x_ = coordinate(kMap);
    y_ = coordinate(kMap + 3);
    inside_ = x_.ge(0).logical_and_(x_.lt(input_width_)).logical_and_(y_.ge(0)).logical_and_(y_.lt(input_height_));
    first_pixel_ = column(kPicture).to(torch::kInt64).view({-1, 1, 1}) * (input_height_ * input_width_);
  }

  /// The pictures' levels at whole coordinates (i64 N x H x W, in range): f32 N x C x H x W.
  torch::Tensor fetch(const torch::Tensor& row, const torch::Tensor& column) const {
    const auto index = first_pixel_ + row * input_width_ + column;
    const auto fetched = pixels_.index_select(0, index.flatten()).to(torch::kFloat32);
    return fetched.view({index.size(0), index.size(1), index.size(2), channels_}).permute({0, 3, 1, 2});
  }

  torch::Tensor nearest() const {
    return fetch(y_.clamp(0, input_height_ - 1).to(torch::kInt64), x_.clamp(0, input_width_ - 1).to(torch::kInt64));
  }

  /// Interpolates vertically first, then horizontally, as render() does.
  torch::Tensor bilinear() const {
    const auto u = (x_ - 0.5).clamp(0, input_width_ - 1), v = (y_ - 0.5).clamp(0, input_height_ - 1);
    const auto left = u.to(torch::kInt64).clamp_max(std::max<int64_t>(input_width_ - 2, 0));
    const auto upper = v.to(torch::kInt64).clamp_max(std::max<int64_t>(input_height_ - 2, 0));
    const auto wx = (u - left.to(torch::kFloat32)).unsqueeze(1), wy = (v - upper.to(torch::kFloat32)).unsqueeze(1);
    const auto right = left + (input_width_ > 1 ? 1 : 0), lower = upper + (input_height_ > 1 ? 1 : 0);
    const auto mix = [](const torch::Tensor& a, const torch::Tensor& b, const torch::Tensor& w) {
      return a + w * (b - a);
    };
    return mix(mix(fetch(upper, left), fetch(lower, left), wy), mix(fetch(upper, right), fetch(lower, right), wy), wx);
  }

  torch::Tensor recolored(const torch::Tensor& levels) const {
    const auto m = [&](int i, int j) { return f32(kColor + 4 * i + j); };
    if (channels_ == 1) return (levels.select(1, 0) * m(0, 0) + m(0, 3)).unsqueeze(1);
    const auto red = levels.select(1, 0), green = levels.select(1, 1), blue = levels.select(1, 2);
    std::vector<torch::Tensor> out;
    for (int i = 0; i < 3; ++i) out.push_back(red * m(i, 0) + green * m(i, 1) + blue * m(i, 2) + m(i, 3));
    return torch::stack(out, 1);
  }

  torch::Tensor erased(torch::Tensor values) const {
    const auto rows = torch::arange(plans_.output.height, torch::device(device_)).view({1, -1, 1});
    const auto columns = torch::arange(plans_.output.width, torch::device(device_)).view({1, 1, -1});
    for (int k = 0; k < plans_.needs.erased_count; ++k) {
      const int first = kErased + k * kErasedColumns;
      const auto edge = [&](int i) { return column(first + i).view({-1, 1, 1}); };
      const auto in_rect = rows.ge(edge(0))
                               .logical_and(rows.lt(edge(2)))
                               .logical_and(columns.ge(edge(1)))
                               .logical_and(columns.lt(edge(3)));
      values = torch::where(in_rect.unsqueeze(1), levels_at(first + 4) * scale_ + bias_, values);
    }
    return values;
  }

  const PlanBatch& plans_;
  torch::Device device_;
  int64_t input_height_, input_width_, channels_;
  torch::Tensor pixels_;  // u8 (M * H * W) x C
  torch::Tensor scale_, bias_;
  torch::Tensor x_, y_, inside_, first_pixel_;
};

}  // namespace

torch::Tensor PlanBatch::labels() const { return rows.select(1, kLabel).to(torch::kInt64); }
torch::Tensor PlanBatch::weights() const { return rows.select(1, kWeight).to(torch::kFloat32); }

PlanBatch make_room_for_plans(int64_t row_count, int channels, const torch::Device& device) {
  PlanBatch room;
  room.output.channels = channels;
  room.rows = torch::empty({row_count, kColumns}, torch::dtype(torch::kFloat64).pinned_memory(device.is_cuda()));
  return room;
}

void pack_plans_into(PlanBatch& room, int64_t first, std::span<const PlannedRow> rows) {
  double* to = room.rows.data_ptr<double>() + first * kColumns;
  PlanNeeds& needs = room.needs;
  for (const auto& row : rows) {
    require_device_renders(row.plan);
    pack_row(row, to);
    to += kColumns;
    room.output.height = row.plan.output_height, room.output.width = row.plan.output_width;
    (row.plan.filter == Filter::kBilinear ? needs.is_bilinear : needs.is_nearest) = true;
    needs.is_recolored |= row.plan.color != kSameColor;
    needs.is_substituted |= row.weight == 0;
    needs.erased_count = std::max(needs.erased_count, row.plan.erased_count);
  }
}

PlanBatch pack_plans(std::span<const PlannedRow> rows, int channels, const torch::Device& device) {
  PlanBatch batch = make_room_for_plans(static_cast<int64_t>(rows.size()), channels, device);
  pack_plans_into(batch, 0, rows);
  batch.rows = batch.rows.to(device, /*non_blocking=*/true);
  return batch;
}

void require_device_renders(const Plan& plan) {
  const char* what = nullptr;
  if (plan.color_step_count > 0) what = "changes colours (color-jitter, grayscale, trivial-augment)";
  if (plan.filter == Filter::kAntialias) what = "resizes with filter=antialias";
  if (plan.view != Region{0, 0, plan.input_width, plan.input_height}) what = "resizes a crop (random-resized-crop)";
  if (what != nullptr)
    throw config_error(concat("--resident: the list of transforms ", what,
                              ", which the device cannot render; expected a list without that, or no --resident"));
}

DeviceNormalization::DeviceNormalization(const Normalization& normalization, int64_t channels,
                                         const torch::Device& device) {
  const auto copy = [&](const std::array<float, 3>& values) {
    return torch::tensor(at::ArrayRef<float>(values.data(), static_cast<size_t>(channels)), torch::device(device))
        .view({1, channels, 1, 1});
  };
  scale = copy(normalization.scale), bias = copy(normalization.bias);
}

torch::Tensor device_render(const torch::Tensor& pictures, const PlanBatch& plans,
                            const DeviceNormalization& normalization) {
  at::NoGradGuard no_grad;
  return BatchRenderer(pictures, plans, normalization).render();
}

}  // namespace penstock
