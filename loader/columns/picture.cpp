// picture: a field of pictures as a column that shows the same part of the scene as the picture does: depth, the other
// camera of a stereo pair, the clean one of a pair.
//
// `picture(field=depth)` gives the column `depth`. The plan is that of the sample's picture; where the second picture
// is of another size, both have the same field of view, and its map is scaled.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "augment/render.h"
#include "augment/targets/on_picture.h"
#include "core/choice.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/batch/option_names.h"
#include "loader/codecs/field_picture.h"
#include "loader/rows/column.h"

namespace penstock {
namespace {

struct SecondPictureOptions {
  std::string name;
  FieldPictureKind kind;  // what all samples must have, but for height and width
  Layout layout = Layout::kF32Nchw;
  std::optional<Filter> filter = {};  // nothing: the plan's
  float fill = 0;
  bool has_colors = false;
  Normalization normalization = {};
};

/// The plan of a sample's picture, of which `plan` is the upright one, for a second picture of its own size.
Plan scaled_to(const Plan& plan, const Picture& second) {
  if (second.height == plan.input_height && second.width == plan.input_width) return plan;
  const double x = static_cast<double>(second.width) / plan.input_width;
  const double y = static_cast<double>(second.height) / plan.input_height;
  Plan scaled = plan;
  scaled.map = Affine::scaling(x, y).after(plan.map);
  scaled.input_height = second.height;
  scaled.input_width = second.width;
  // Outwards to whole pixels, as Plan::look_only_at() does.
  const auto low = [](double at) { return std::max(static_cast<int>(std::floor(at + 1e-6)), 0); };
  const auto high = [](double at, int size) { return std::min(static_cast<int>(std::ceil(at - 1e-6)), size); };
  const int left = low(plan.view.x * x), right = high((plan.view.x + plan.view.width) * x, second.width);
  const int top = low(plan.view.y * y), bottom = high((plan.view.y + plan.view.height) * y, second.height);
  scaled.view = {left, top, std::max(right - left, 0), std::max(bottom - top, 0)};
  return scaled;
}

class SecondPictureColumn final : public ColumnMaker {
 public:
  SecondPictureColumn(const ColumnContext& context, size_t number, SecondPictureOptions options)
      : dataset_(context.dataset), number_(number), extent_(context.extent), options_(std::move(options)) {
    extent_.channels = options_.kind.extent.channels;
  }

  std::vector<Column> columns() const override { return {pixel_column(options_.name, extent_, options_.layout)}; }
  bool is_in_pixels() const override { return true; }

  void make(const ColumnRow& row, ColumnCells to) const override {
    thread_local DecodeScratch scratch;
    const HeldField stored = dataset_.field(row.index, number_);  // its errors name sample and field already
    try {
      const Picture second = decode_field_picture(stored.bytes, scratch);
      const FieldPictureKind& kind = options_.kind;
      if (second.type != kind.type || second.channels != kind.extent.channels)
        throw corrupt_error(concat("a picture of ", pixels_text(second.type, second.channels), "; expected ",
                                   pixels_text(kind.type, kind.extent.channels), ", as the first sample has"));
      render(second, plan_for(row, second), options_.normalization, options_.layout, to[0]);
    } catch (const Error& error) {
      throw Error(error.kind(), concat(dataset_.where(row.index), ": field ",
                                       in_quotes(dataset_.manifest().fields[number_].name), ": ", error.what()));
    }
  }

 private:
  Plan plan_for(const ColumnRow& row, const Picture& second) const {
    Plan plan = scaled_to(on_upright(row.plan, row.sample.orientation), second);
    plan.fill.fill(options_.fill);
    plan.filter = options_.filter.value_or(plan.filter);
    if (options_.has_colors) return plan;
    plan.color = Plan().color;
    plan.color_step_count = plan.erased_count = 0;
    plan.chains = nullptr;
    return plan;
  }

  const Dataset& dataset_;
  size_t number_;
  Extent extent_;
  SecondPictureOptions options_;
};

/// What the first sample has.
FieldPictureKind first_kind(const Spec& spec, const Dataset& dataset, size_t number) {
  const auto index = dataset.example_index();
  if (!index) return {.extent = {1, 1, 1}};
  try {
    const HeldField first = dataset.field(*index, number);
    return probe_field_picture(first.bytes);
  } catch (const Error& error) {
    throw Error(error.kind(), concat("column ", spec.text(), ": ", dataset.where(*index), ": ", error.what()));
  }
}

PerChannel<double> numbers_of(const Spec& spec, const char* key, int channels) {
  const auto values = spec.get(key, std::vector<double>{});
  if (values.size() != 1 && values.size() != static_cast<size_t>(channels))
    throw config_error(concat("column ", spec.text(), ": ", key, " has ", values.size(), " numbers; expected 1",
                              channels == 1 ? "" : concat(" or ", channels)));
  PerChannel<double> each{};
  for (size_t i = 0; i < static_cast<size_t>(channels); ++i) each[i] = values[values.size() == 1 ? 0 : i];
  return each;
}

Normalization normalization_of(const Spec& spec, const SecondPictureOptions& options) {
  const auto [extent, type] = options.kind;
  if (!spec.has("mean") && !spec.has("std")) return Normalization::plain(type);
  if (!spec.has("mean") || !spec.has("std") || has_levels(options.layout))
    throw config_error(concat("column ", spec.text(), ": mean or std are given alone, or for layout ",
                              layout_name(options.layout), "; expected both, and a layout of floats"));
  const auto deviation = numbers_of(spec, "std", extent.channels);
  for (int i = 0; i < extent.channels; ++i)
    if (!(deviation[static_cast<size_t>(i)] > 0))
      throw config_error(concat("column ", spec.text(), ": std of channel ", i, " is ",
                                deviation[static_cast<size_t>(i)], "; expected more than 0"));
  return Normalization::of(numbers_of(spec, "mean", extent.channels), deviation, white_level(type));
}

void check_second(const Spec& spec, const SecondPictureOptions& options) {
  const auto& [extent, type] = options.kind;
  const std::string pixels = pixels_text(type, extent.channels);
  const bool has_own_layout = type == (options.layout == Layout::kU8Nhwc ? PixelType::kU8 : PixelType::kU16);
  if (has_levels(options.layout) && !has_own_layout)
    throw config_error(concat("column ", spec.text(), ": pictures have ", pixels, "; expected a layout of floats",
                              type == PixelType::kF32 ? "" : concat(", or ", pixel_type_name(type))));
  if (options.has_colors && is_raster(type, extent.channels))
    throw config_error(concat("column ", spec.text(), ": color is true, and pictures have ", pixels,
                              "; expected 1 or 3 channels of u8"));
  if (type != PixelType::kF32 && !(options.fill >= 0 && options.fill <= white_level(type)))
    throw config_error(
        concat("column ", spec.text(), ": fill is ", options.fill, "; expected a level from 0 to ", white_level(type)));
}

std::unique_ptr<ColumnMaker> make_second_picture(const Spec& spec, const ColumnContext& context) {
  const std::string name = spec.get("field", "");
  if (name.empty()) throw config_error(concat("column ", spec.text(), ": no field; expected field=FIELD"));
  const size_t number = context.dataset.field_number(name);
  const FieldType& type = context.dataset.manifest().fields[number];
  if (type.kind != FieldKind::kPicture)
    throw config_error(concat("column ", spec.text(), ": field ", in_quotes(name), " is of kind ",
                              field_kind_name(type.kind), "; expected picture"));
  SecondPictureOptions options{.name = spec.get("column", name.c_str()),
                               .kind = first_kind(spec, context.dataset, number)};
  const PixelType pixels = options.kind.type;
  const std::string layout = spec.get("layout", pixel_type_name(pixels));
  options.layout = choice("layout", layout, layout_names());
  const std::string filter = spec.get("interpolation", "");
  if (!filter.empty())
    options.filter = choice<Filter>(
        "interpolation", filter,
        {{"nearest", Filter::kNearest}, {"bilinear", Filter::kBilinear}, {"antialias", Filter::kAntialias}});
  options.fill = static_cast<float>(spec.get("fill", type.fill));
  options.has_colors = spec.get("color", false);
  check_second(spec, options);
  options.normalization = normalization_of(spec, options);
  return std::make_unique<SecondPictureColumn>(context, number, std::move(options));
}

const Registered<ColumnKind> kSecondPicture{
    "picture",
    {"field", "column", "layout", "interpolation", "fill", "color", "mean", "std"},
    "a field of pictures under the plan of the picture: field=, column=name of the column, layout= as of images "
    "(default: the type of its pixels), interpolation=nearest|bilinear|antialias (the plan's), fill= (the field's), "
    "color=true|false: whether colour transforms and erased rectangles apply (false), mean=a:b:c,std=a:b:c",
    make_second_picture};

}  // namespace
}  // namespace penstock
