// move_mask(): nearest pixels, found as render() finds them.
#include "augment/targets/masks.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "augment/plan/sampling.h"
#include "augment/render.h"
#include "augment/targets/on_picture.h"
#include "augment/targets/picked_columns.h"
#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

template <class Value>
class Mover {
 public:
  Mover(std::span<const Value> mask, const Plan& plan, Value fill)
      : seen_(detail::seen_from_view(plan)),
        first_(mask.data() + static_cast<size_t>(plan.view.y) * static_cast<size_t>(plan.input_width) + plan.view.x),
        stride_(plan.input_width),
        fill_(fill) {}

  /// Each product and each sum is rounded to f32, as in mapped_rows() of render_rows.cpp: the same pixel, bit by bit.
  void row(int number, Value* to) const {
    const Affine& map = seen_.map;
    const auto xx = static_cast<float>(map.xx), yx = static_cast<float>(map.yx);
    const auto row_x = static_cast<float>(map.xy * (number + 0.5) + map.x0);
    const auto row_y = static_cast<float>(map.yy * (number + 0.5) + map.y0);
    const auto width = static_cast<float>(seen_.input_width), height = static_cast<float>(seen_.input_height);
    for (int column = 0; column < seen_.output_width; ++column) {
      const float center = static_cast<float>(column) + 0.5F;
      const float x = center * xx + row_x, y = center * yx + row_y;
      const bool is_inside = x >= 0 && x < width && y >= 0 && y < height;
      to[column] = is_inside ? first_[static_cast<ptrdiff_t>(y) * stride_ + static_cast<ptrdiff_t>(x)] : fill_;
    }
  }

 private:
  Plan seen_;
  const Value* first_;  // of the view
  ptrdiff_t stride_;
  Value fill_;
};

/// For maps that only scale, mirror and shift: the columns are found once. The same pixels as Mover's.
template <class Value>
void move_along_axes(std::span<const Value> mask, const Plan& plan, Value fill, std::span<Value> output) {
  const Plan seen = detail::seen_from_view(plan);
  const auto xx = static_cast<float>(seen.map.xx), x0 = static_cast<float>(seen.map.x0);
  const auto width = static_cast<float>(seen.input_width), height = static_cast<float>(seen.input_height);
  const auto stride = static_cast<size_t>(plan.input_width), columns = static_cast<size_t>(plan.output_width);
  const Value* const first = mask.data() + static_cast<size_t>(plan.view.y) * stride + plan.view.x;
  std::vector<uint32_t> from;  // the columns [begin, begin + from.size()) lie in the view
  size_t begin = 0;
  for (size_t column = 0; column < columns; ++column) {
    const float x = (static_cast<float>(column) + 0.5F) * xx + x0;
    if (!(x >= 0 && x < width)) continue;
    if (from.empty()) begin = column;
    from.push_back(static_cast<uint32_t>(x));
  }
  detail::PickedColumns picked;
  if constexpr (sizeof(Value) == 1) picked = {from, static_cast<size_t>(seen.input_width)};
  const Value* before = nullptr;  // the row of the mask that the line above shows
  for (int row = 0; row < plan.output_height; ++row) {
    Value* const line = output.data() + static_cast<size_t>(row) * columns;
    const auto y = static_cast<float>(seen.map.yy * (row + 0.5) + seen.map.y0);
    if (!(y >= 0 && y < height) || from.empty()) {
      std::fill(line, line + columns, fill);
      before = nullptr;
      continue;
    }
    const Value* const of = first + static_cast<size_t>(y) * stride;
    if (of == before) {
      std::copy(line - columns, line, line);
      continue;
    }
    before = of;
    std::fill(line, line + begin, fill);
    if constexpr (sizeof(Value) == 1)
      picked.pick(of, line + begin);
    else
      for (size_t i = 0; i < from.size(); ++i) line[begin + i] = of[from[i]];
    std::fill(line + begin + from.size(), line + columns, fill);
  }
}

/// What move_mask() does, in the SIMD of render().
void render_mask(std::span<const uint8_t> mask, const Plan& plan, uint8_t fill, std::span<uint8_t> output) {
  Plan bare;
  bare.input_height = plan.input_height;
  bare.input_width = plan.input_width;
  bare.output_height = plan.output_height;
  bare.output_width = plan.output_width;
  bare.view = plan.view;
  bare.map = plan.map;
  bare.fill.fill(fill);
  const Picture picture{mask.data(), plan.input_width, plan.input_height, plan.input_width, 1, 0, 0};
  render(picture, bare, {}, Layout::kU8Nhwc, output.data());
}

template <class Value>
void fill_border(const Plan& plan, Value fill, std::span<Value> output) {
  const Region shown = shown_region(plan);
  for (int row = 0; row < plan.output_height; ++row) {
    Value* const line = output.data() + static_cast<size_t>(row) * static_cast<size_t>(plan.output_width);
    const bool is_shown = row >= shown.y && row < shown.y + shown.height;
    std::fill(line, line + (is_shown ? shown.x : plan.output_width), fill);
    if (is_shown) std::fill(line + shown.x + shown.width, line + plan.output_width, fill);
  }
}

template <class Value>
void copy_border(const Plan& plan, std::span<Value> output) {
  const Region shown = shown_region(plan);
  const auto width = static_cast<size_t>(plan.output_width);
  const auto line = [&](int row) { return output.data() + static_cast<size_t>(row) * width; };
  for (int row = shown.y; row < shown.y + shown.height; ++row)
    for (int column = 0; column < plan.output_width; ++column)
      if (column < shown.x || column >= shown.x + shown.width)
        line(row)[column] = line(row)[plan.inside.x + pixel_at(plan.border, column - plan.inside.x, plan.inside.width)];
  for (int row = 0; row < plan.output_height; ++row) {
    if (row >= shown.y && row < shown.y + shown.height) continue;
    const Value* const from = line(plan.inside.y + pixel_at(plan.border, row - plan.inside.y, plan.inside.height));
    std::copy(from, from + width, line(row));
  }
}

}  // namespace

template <class Value>
void move_mask(std::span<const Value> mask, const Plan& plan, Value fill, MaskBorder border, std::span<Value> output) {
  const auto input_count = static_cast<size_t>(plan.input_height) * static_cast<size_t>(plan.input_width);
  const auto output_count = static_cast<size_t>(plan.output_height) * static_cast<size_t>(plan.output_width);
  if (mask.size() != input_count || output.size() != output_count)
    throw bug_error(concat("move_mask: ", mask.size(), " values to ", output.size(), "; expected ", input_count, " to ",
                           output_count));
  if (plan.map.xy == 0 && plan.map.yx == 0) {
    move_along_axes(mask, plan, fill, output);
  } else if constexpr (std::is_same_v<Value, uint8_t>) {
    render_mask(mask, plan, fill, output);
  } else {
    const Mover<Value> mover(mask, plan, fill);
    for (int row = 0; row < plan.output_height; ++row)
      mover.row(row, output.data() + static_cast<size_t>(row) * static_cast<size_t>(plan.output_width));
  }
  if (plan.border == Border::kFill) return;
  border == MaskBorder::kFill ? fill_border(plan, fill, output) : copy_border(plan, output);
}

template <class Value>
std::vector<Value> as_stored(std::span<const Value> upright, int orientation, int stored_height, int stored_width) {
  std::vector<Value> stored(upright.size());
  // The inverse of the upright picture's plan, which is made of whole numbers.
  const Affine map = *inverse(orientation_map(orientation, stored_height, stored_width));
  const int upright_width = orientation >= 5 && orientation <= 8 ? stored_height : stored_width;
  for (int row = 0; row < stored_height; ++row)
    for (int column = 0; column < stored_width; ++column) {
      const double x = column + 0.5, y = row + 0.5;
      const auto from_x = static_cast<size_t>(map.xx * x + map.xy * y + map.x0);
      const auto from_y = static_cast<size_t>(map.yx * x + map.yy * y + map.y0);
      stored[static_cast<size_t>(row) * static_cast<size_t>(stored_width) + static_cast<size_t>(column)] =
          upright[from_y * static_cast<size_t>(upright_width) + from_x];
    }
  return stored;
}

template void move_mask(std::span<const uint8_t>, const Plan&, uint8_t, MaskBorder, std::span<uint8_t>);
template void move_mask(std::span<const uint16_t>, const Plan&, uint16_t, MaskBorder, std::span<uint16_t>);
template void move_mask(std::span<const int32_t>, const Plan&, int32_t, MaskBorder, std::span<int32_t>);
template std::vector<uint8_t> as_stored(std::span<const uint8_t>, int, int, int);
template std::vector<uint16_t> as_stored(std::span<const uint16_t>, int, int, int);
template std::vector<int32_t> as_stored(std::span<const int32_t>, int, int, int);

}  // namespace penstock
