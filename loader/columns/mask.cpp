// mask: a field of masks as a column that shows the same part of the picture as the pixels do.
//
// `mask(field=segmentation)` gives the column `segmentation`, u8 of height x width. dtype=u16|i32 are for PNGs of 16
// bits, and for RGB ones, whose values are R + 256 G + 65536 B. What lies outside of the picture is the field's fill.
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "augment/plan/footprint.h"
#include "augment/targets/masks.h"
#include "core/choice.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/codecs/mask_rows.h"
#include "loader/rows/column.h"

namespace penstock {
namespace {

template <class Value>
class MaskColumn final : public ColumnMaker {
 public:
  MaskColumn(const ColumnContext& context, size_t number, std::string name, Dtype dtype)
      : dataset_(context.dataset),
        number_(number),
        column_{std::move(name), dtype, {context.extent.height, context.extent.width}},
        fill_(static_cast<Value>(type().fill)) {}

  std::vector<Column> columns() const override { return {column_}; }
  bool is_in_pixels() const override { return true; }

  void make(const ColumnRow& row, ColumnCells to) const override {
    const Plan& plan = row.plan;
    const int orientation = row.sample.orientation;
    const bool turns = orientation > 4;
    const int height = turns ? plan.input_width : plan.input_height;
    const int width = turns ? plan.input_height : plan.input_width;
    // One more than the footprint on each side, because render() rounds to f32.
    const Region seen = footprint(plan), whole{0, 0, width, height};
    const Region needed = orientation > 1 ? whole : Region{0, 0, seen.x + seen.width + 1, seen.y + seen.height + 1};
    const MaskView mask = decoded(row.index, height, width, needed);
    const auto count = static_cast<size_t>(plan.output_height) * static_cast<size_t>(plan.output_width);
    const std::span<Value> output(reinterpret_cast<Value*>(to[0]), count);
    if (mask.bits == 8) return moved<uint8_t>(mask.bytes, plan, orientation, output);
    if (mask.bits == 16) return moved<uint16_t>(mask.words, plan, orientation, output);
    moved<int32_t>(mask.longs, plan, orientation, output);
  }

 private:
  const FieldType& type() const { return dataset_.manifest().fields[number_]; }

  MaskView decoded(uint64_t index, int height, int width, const Region& needed) const {
    thread_local MaskRows rows;
    const HeldField png = dataset_.field(index, number_);  // its errors name sample and field already
    try {
      const MaskView mask = rows.decode(png.bytes, height, width, needed);
      if (static_cast<size_t>(mask.bits) > 8 * sizeof(Value))
        throw config_error(concat("a mask of ", mask.bits, " bits; expected dtype=",
                                  mask.bits == 16 ? "u16 or i32" : "i32", " for this column"));
      return mask;
    } catch (const Error& error) {
      throw Error(error.kind(), concat(dataset_.where(index), ": field ", in_quotes(type().name), ": ", error.what()));
    }
  }

  template <class Stored>
  void moved(std::span<const Stored> stored, const Plan& plan, int orientation, std::span<Value> output) const {
    if constexpr (std::is_same_v<Stored, Value>) {
      if (orientation <= 1) return move_mask<Value>(stored, plan, fill_, MaskBorder::kCopied, output);
    }
    std::vector<Value> values(stored.begin(), stored.end());
    if (orientation > 1) values = as_stored<Value>(values, orientation, plan.input_height, plan.input_width);
    move_mask<Value>(values, plan, fill_, MaskBorder::kCopied, output);
  }

  const Dataset& dataset_;
  size_t number_;
  Column column_;
  Value fill_;
};

template <class Value>
std::unique_ptr<ColumnMaker> mask_column(const Spec& spec, const ColumnContext& context, size_t number, Dtype dtype) {
  const FieldType& type = context.dataset.manifest().fields[number];
  using Limits = std::numeric_limits<Value>;
  if (!(type.fill >= Limits::min() && type.fill <= Limits::max() && type.fill == std::floor(type.fill)))
    throw config_error(
        concat("column ", spec.text(), ": the fill of the field is ", type.fill, "; expected a dtype that has it"));
  return std::make_unique<MaskColumn<Value>>(context, number, spec.get("column", type.name.c_str()), dtype);
}

std::unique_ptr<ColumnMaker> make_mask(const Spec& spec, const ColumnContext& context) {
  const std::string name = spec.get("field", "");
  if (name.empty()) throw config_error(concat("column ", spec.text(), ": no field; expected field=FIELD"));
  const size_t number = context.dataset.field_number(name);
  const FieldType& type = context.dataset.manifest().fields[number];
  if (type.kind != FieldKind::kMask)
    throw config_error(concat("column ", spec.text(), ": field ", in_quotes(name), " is of kind ",
                              field_kind_name(type.kind), "; expected mask"));
  const std::string dtype = spec.get("dtype", "u8");
  if (dtype == "u8") return mask_column<uint8_t>(spec, context, number, Dtype::kU8);
  if (dtype == "u16") return mask_column<uint16_t>(spec, context, number, Dtype::kU16);
  if (dtype == "i32") return mask_column<int32_t>(spec, context, number, Dtype::kI32);
  throw config_error(concat("column ", spec.text(), ": dtype is ", in_quotes(dtype), "; expected u8, u16 or i32"));
}

const Registered<ColumnKind> kMask{"mask",
                                   {"field", "column", "dtype"},
                                   "a field of masks under the plan of the picture: field=, column=name of the column, "
                                   "dtype=u8|u16|i32 (default u8)",
                                   make_mask};

}  // namespace
}  // namespace penstock
