// TargetDrawer: outlines, dots and tints.
#include "loader/look/target_drawer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "augment/plan/box.h"
#include "augment/targets/keypoints.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

using Color = std::array<uint8_t, 3>;

constexpr uint64_t kMostShapeBytes = uint64_t{1} << 28;
constexpr size_t kMostFollowers = ColumnMaker::kMostColumns - 4;
constexpr int kLarge = 200;  // pixels from which on a side has thick lines

/// Colours that are easily told apart, from the sixth number on darker.
Color color_of(int64_t number) {
  constexpr std::array<Color, 6> kColors{
      {{230, 25, 75}, {60, 180, 75}, {255, 225, 25}, {0, 130, 200}, {245, 130, 48}, {145, 30, 180}}};
  const auto place = static_cast<uint64_t>(number);
  Color color = kColors[place % kColors.size()];
  for (auto& level : color) level = static_cast<uint8_t>(level - place / kColors.size() % 3 * (level / 4));
  return color;
}

template <class Value>
std::span<const Value> values_of(const Batch& batch, const std::string& column, int64_t row) {
  const size_t number = batch.column_number(column), row_bytes = batch.columns()[number].row_bytes();
  const auto bytes = batch.column(number).subspan(static_cast<size_t>(row) * row_bytes, row_bytes);
  return {reinterpret_cast<const Value*>(bytes.data()), row_bytes / sizeof(Value)};
}

void put(const SheetCell& cell, int x, int y, const Color& color) {
  if (x >= 0 && y >= 0 && x < cell.width && y < cell.height)
    std::copy(color.begin(), color.end(), cell.pixels + y * cell.stride + x * 3);
}

void tint(const SheetCell& cell, size_t pixel, const Color& color) {
  const auto width = static_cast<size_t>(cell.width);
  uint8_t* const to = cell.pixels + static_cast<ptrdiff_t>(pixel / width) * cell.stride + pixel % width * 3;
  for (size_t i = 0; i < 3; ++i) to[i] = static_cast<uint8_t>((to[i] + color[i] + 1) / 2);
}

int thickness(const SheetCell& cell) { return std::min(cell.height, cell.width) < kLarge ? 1 : 2; }

void outline(const SheetCell& cell, const Box& box, const Color& color) {
  const int left = static_cast<int>(std::floor(box.x0)), right = static_cast<int>(std::ceil(box.x1)) - 1;
  const int top = static_cast<int>(std::floor(box.y0)), bottom = static_cast<int>(std::ceil(box.y1)) - 1;
  for (int line = 0; line < thickness(cell); ++line) {
    for (int x = left; x <= right; ++x)
      for (const int y : {top + line, bottom - line}) put(cell, x, y, color);
    for (int y = top; y <= bottom; ++y)
      for (const int x : {left + line, right - line}) put(cell, x, y, color);
  }
}

void dot(const SheetCell& cell, const KeyPoint& point, const Color& color) {
  if (point.v == 0) return;
  const int x = static_cast<int>(point.x), y = static_cast<int>(point.y), reach = thickness(cell);
  for (int dy = -reach; dy <= reach; ++dy)
    for (int dx = -reach; dx <= reach; ++dx) put(cell, x + dx, y + dy, color);
}

}  // namespace

TargetDrawer::TargetDrawer(const Dataset& dataset, const Extent& cell) {
  for (const auto& type : dataset.manifest().fields) {
    // Names of their own: a field may be called "images".
    const std::string column = concat("target.", fields_.size());
    if (type.kind == FieldKind::kMask) {
      const auto fill = static_cast<int32_t>(std::clamp(type.fill, -1e9, 1e9));
      fields_.push_back({.kind = type.kind,
                         .column = column,
                         .spec = concat("mask(field=", type.name, ",dtype=i32,column=", column, ")"),
                         .fill = fill});
    } else if (type.kind == FieldKind::kKeypoints && type.of.empty()) {
      fields_.push_back({.kind = type.kind,
                         .column = column,
                         .spec = concat("keypoints(field=", type.name, ",column=", column, ")"),
                         .per_entry = static_cast<size_t>(type.shape[1])});
    } else if (type.kind == FieldKind::kBoxes && type.of.empty()) {
      Field field{.kind = type.kind, .column = column, .spec = ""};
      std::vector<std::string> with;
      const uint64_t shape_bytes =
          type.most * static_cast<uint64_t>(cell.height) * static_cast<uint64_t>(std::max(cell.width, 1));
      for (const auto& other : dataset.manifest().fields) {
        if (other.of != type.name || with.size() == kMostFollowers) continue;
        if (other.kind == FieldKind::kKeypoints) {
          field.points.push_back(concat(column, ".", other.name));
          field.per_entry = static_cast<size_t>(other.shape[1]);
        } else if (other.kind == FieldKind::kInstances && shape_bytes <= kMostShapeBytes) {
          field.shapes.push_back(concat(column, ".", other.name));
        } else {
          continue;
        }
        with.push_back(other.name);
      }
      field.spec =
          concat("boxes(field=", type.name, ",column=", column, with.empty() ? "" : ",with=", join(with, ":"), ")");
      fields_.push_back(std::move(field));
    }
  }
}

std::string TargetDrawer::columns() const {
  std::vector<std::string> specs;
  for (const auto& field : fields_) specs.push_back(field.spec);
  return join(specs, ",");
}

void TargetDrawer::draw_boxes(const Field& field, const Batch& batch, int64_t row, const SheetCell& cell) {
  const auto count = static_cast<size_t>(values_of<int64_t>(batch, field.column + ".count", row)[0]);
  const auto boxes = values_of<Box>(batch, field.column, row);
  const auto indices = values_of<int64_t>(batch, field.column + ".index", row);
  const auto pixel_count = static_cast<size_t>(cell.height) * static_cast<size_t>(cell.width);
  for (const auto& shape : field.shapes) {
    const auto pixels = values_of<uint8_t>(batch, shape, row);
    for (size_t i = 0; i < count * pixel_count; ++i)
      if (pixels[i] != 0) tint(cell, i % pixel_count, color_of(indices[i / pixel_count]));
  }
  for (size_t i = 0; i < count; ++i) outline(cell, boxes[i], color_of(indices[i]));
  for (const auto& column : field.points) {
    const auto points = values_of<KeyPoint>(batch, column, row);
    const size_t per_box = points.size() / boxes.size();
    for (size_t i = 0; i < count * per_box; ++i) dot(cell, points[i], color_of(indices[i / per_box]));
  }
}

void TargetDrawer::draw(const Batch& batch, int64_t row, const SheetCell& cell) const {
  for (const auto& field : fields_) {
    if (field.kind != FieldKind::kMask) continue;  // they lie below the others
    const auto values = values_of<int32_t>(batch, field.column, row);
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] != 0 && values[i] != field.fill) tint(cell, i, color_of(values[i]));
  }
  for (const auto& field : fields_) {
    if (field.kind == FieldKind::kBoxes) draw_boxes(field, batch, row, cell);
    if (field.kind != FieldKind::kKeypoints) continue;
    const auto points = values_of<KeyPoint>(batch, field.column, row);
    const auto count = static_cast<size_t>(values_of<int64_t>(batch, field.column + ".count", row)[0]);
    for (size_t i = 0; i < count * field.per_entry; ++i)
      dot(cell, points[i], color_of(static_cast<int64_t>(i / field.per_entry)));
  }
}

}  // namespace penstock::detail
