// Columns that are only there in tests: `mean` and `map`. No file of the library knows them.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "loader/rows/column.h"

namespace penstock {

/// f32: `times` the mean of the f32 pixels of the row.
class MeanColumn final : public ColumnMaker {
 public:
  explicit MeanColumn(double times) : times_(times) {}
  std::vector<Column> columns() const override { return {{"mean", Dtype::kF32}}; }
  void make(const ColumnRow& row, ColumnCells to) const override {
    const float mean = static_cast<float>(times_ * mean_of(row.pixels));
    std::memcpy(to[0], &mean, sizeof mean);
  }
  static double mean_of(std::span<const std::byte> pixels) {
    std::vector<float> values(pixels.size() / sizeof(float));
    std::memcpy(values.data(), pixels.data(), pixels.size());
    double sum = 0;
    for (const float value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }

 private:
  double times_;
};

/// i64 x 2 x 3: the plan's map, in millionths.
class MapColumn final : public ColumnMaker {
 public:
  using Map = std::array<int64_t, 6>;
  std::vector<Column> columns() const override { return {{"map", Dtype::kI64, {2, 3}}}; }
  void make(const ColumnRow& row, ColumnCells to) const override {
    const Map map = map_of(row.plan);
    std::memcpy(to[0], map.data(), sizeof map);
  }
  static Map map_of(const Plan& plan) {
    const auto [xx, xy, x0, yx, yy, y0] = plan.map;
    Map map{};
    for (size_t i = 0; const double value : {xx, xy, x0, yx, yy, y0}) map[i++] = static_cast<int64_t>(value * 1e6);
    return map;
  }
};

inline const Registered<ColumnKind> kMeanColumn{
    "mean", {"times"}, "mean of the pixels", [](const Spec& spec, const ColumnContext&) {
      return std::make_unique<MeanColumn>(spec.get("times", 1.0));
    }};
inline const Registered<ColumnKind> kMapColumn{
    "map", {}, "map of the plan", [](const Spec&, const ColumnContext&) { return std::make_unique<MapColumn>(); }};

}  // namespace penstock
