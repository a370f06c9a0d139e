// upright: corners and points through the map of an orientation, pixels by render() and move_mask().
#include "loader/import/upright.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "augment/plan/box.h"
#include "augment/targets/keypoints.h"
#include "augment/targets/masks.h"
#include "augment/targets/on_picture.h"
#include "core/bytes.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/codecs/field_picture.h"
#include "loader/codecs/mask_png.h"
#include "loader/codecs/npy.h"
#include "loader/codecs/png_writer.h"
#include "loader/files/instance_masks.h"

namespace penstock::detail {
namespace {

bool turns(int orientation) { return orientation >= 5 && orientation <= 8; }

/// Which of the two rasters has this size: kUnknown where both have it, nothing where none has.
std::optional<AnnotatedOn> raster_of(int height, int width, const StoredRaster& raster) {
  const bool is_raw = height == raster.height && width == raster.width;
  const bool is_upright = turns(raster.orientation) ? height == raster.width && width == raster.height : is_raw;
  if (!is_raw && !is_upright) return {};
  return is_raw == is_upright ? AnnotatedOn::kUnknown : is_raw ? AnnotatedOn::kRaw : AnnotatedOn::kUpright;
}

/// The same for a picture of any size with the same field of view; sides are rounded to pixels.
std::optional<AnnotatedOn> raster_of_proportions(const Extent& second, const StoredRaster& raster) {
  const auto fits = [&](int64_t height, int64_t width) {
    return std::abs(second.height * width - second.width * height) <= std::max(height, width);
  };
  const bool is_raw = fits(raster.height, raster.width);
  const bool is_upright = turns(raster.orientation) ? fits(raster.width, raster.height) : is_raw;
  if (!is_raw && !is_upright) return {};
  return is_raw == is_upright ? AnnotatedOn::kUnknown : is_raw ? AnnotatedOn::kRaw : AnnotatedOn::kUpright;
}

Error wrong_size(const StoredRaster& raster, const Annotated& said) {
  const std::string fact = concat("annotations are of a picture of ", said.height, " x ", said.width, "; expected ",
                                  raster.height, " x ", raster.width);
  if (turns(raster.orientation))
    return corrupt_error(concat(fact, ", as its file stores it, or ", raster.width, " x ", raster.height,
                                ", as its orientation ", raster.orientation, " turns it (height x width)"));
  const bool is_swapped = said.height == raster.width && said.width == raster.height;
  return corrupt_error(
      concat(fact, " (height x width), as it has", is_swapped ? ", which no orientation turns by a quarter" : ""));
}

template <class Value>
std::vector<Value> turned(std::span<const Value> pixels, int orientation, int height, int width) {
  std::vector<Value> upright(pixels.size());
  move_mask<Value>(pixels, Plan::upright(orientation, height, width), 0, MaskBorder::kFill, upright);
  return upright;
}

/// Turns one sample's values, from the raw raster to the upright picture.
class Turner {
 public:
  explicit Turner(const StoredRaster& raster)
      : raster_(raster),
        plan_(Plan::upright(raster.orientation, raster.height, raster.width)),
        // Its elements are whole numbers, and so are those of its inverse.
        map_(*inverse(plan_.map)) {}

  void turn(const FieldType& type, FieldValue& value) const {
    if (type.kind == FieldKind::kBoxes || type.kind == FieldKind::kKeypoints)
      check_field_value(type, value, raster_.height, raster_.width);
    if (type.kind == FieldKind::kBoxes) each<Box>(value, [&](Box& box) { box = turned_box(box); });
    if (type.kind == FieldKind::kKeypoints) turn_keypoints(type, value);
    if (type.kind == FieldKind::kInstances) value = turned_instances(value);
    if (type.kind == FieldKind::kMask) value = turned_mask(value);
  }

 private:
  Vertex turned_point(float x, float y) const {
    return {static_cast<float>(map_.xx * x + map_.xy * y + map_.x0),
            static_cast<float>(map_.yx * x + map_.yy * y + map_.y0)};
  }

  Box turned_box(const Box& box) const {
    const Vertex a = turned_point(box.x0, box.y0), b = turned_point(box.x1, box.y1);
    return {std::min(a.x, b.x), std::min(a.y, b.y), std::max(a.x, b.x), std::max(a.y, b.y)};
  }

  template <class Item, class Body>
  static void each(FieldValue& value, const Body& body) {
    for (size_t at = 0; at + sizeof(Item) <= value.size(); at += sizeof(Item)) {
      Item item;
      std::memcpy(&item, value.data() + at, sizeof item);
      body(item);
      std::memcpy(value.data() + at, &item, sizeof item);
    }
  }

  /// A point that is not there, as COCO's 0, 0, 0, keeps its numbers.
  void turn_keypoints(const FieldType& type, FieldValue& value) const {
    each<KeyPoint>(value, [&](KeyPoint& point) {
      if (point == KeyPoint{}) return;
      const Vertex place = turned_point(point.x, point.y);
      point = {place.x, place.y, point.v};
    });
    if (!is_mirrored(plan_) || !type.swapped) return;
    const auto point_at = [&](size_t entry, int number) {
      return value.begin() + static_cast<ptrdiff_t>(entry + static_cast<size_t>(number) * sizeof(KeyPoint));
    };
    for (size_t entry = 0; entry + type.entry_bytes() <= value.size(); entry += type.entry_bytes())
      for (const auto& [a, b] : *type.swapped)
        std::swap_ranges(point_at(entry, a), point_at(entry, a) + sizeof(KeyPoint), point_at(entry, b));
  }

  FieldValue turned_instances(const FieldValue& value) const {
    const InstanceMasks masks(value, raster_.height, raster_.width);
    std::vector<InstanceMask> upright;
    for (size_t i = 0; i < masks.size(); ++i) {
      InstanceMask& mask = upright.emplace_back(masks.at(i));
      for (auto& polygon : mask.polygons)
        for (auto& point : polygon) point = turned_point(point.x, point.y);
      if (mask.runs.empty()) continue;
      const auto pixels = pixels_of_runs(mask.runs, raster_.height, raster_.width);
      mask.runs = runs_of_pixels(turned<uint8_t>(pixels, raster_.orientation, raster_.height, raster_.width),
                                 plan_.output_height, plan_.output_width);
    }
    return pack_instances(upright);
  }

  FieldValue turned_mask(const FieldValue& png) const {
    const MaskPixels mask = decode_mask(png, raster_.height, raster_.width);
    const auto turn = [&]<class Value>(const std::vector<Value>& values) {
      return turned<Value>(values, raster_.orientation, mask.height, mask.width);
    };
    Extent extent{plan_.output_height, plan_.output_width, 1};
    if (mask.bits == 8) return write_png(turn(mask.bytes), extent);
    if (mask.bits == 16) {
      const auto words = turn(mask.words);
      return write_png(as_bytes(words), extent, 16);
    }
    std::vector<uint8_t> colors;
    for (const int32_t value : turn(mask.longs))
      for (int byte = 0; byte < 3; ++byte) colors.push_back(static_cast<uint8_t>(value >> 8 * byte));
    extent.channels = 3;
    return write_png(colors, extent);
  }

  StoredRaster raster_;
  Plan plan_;
  Affine map_;
};

void turn_picture(FieldValue& value, int orientation) {
  DecodeScratch scratch;
  const Picture picture = decode_field_picture(value, scratch);
  const auto pixels = upright_pixels(picture, orientation);
  const bool turned = turns(orientation);
  const Extent extent{turned ? picture.width : picture.height, turned ? picture.height : picture.width,
                      picture.channels};
  const Encoding encoding = raw_encoding(picture.type);
  value = codec_for(encoding).file({.extent = extent, .encoding = encoding, .bytes = pixels});
}

/// The orientation in a second picture's own file.
int own_orientation(const FieldValue& value) {
  return is_npy(value) ? 1 : codec_for(detect_encoding(value)).orientation(value);
}

bool is_empty(const FieldType& type, const FieldValue& value) {
  const bool is_list_of_none = type.kind == FieldKind::kInstances && value == pack_instances({});
  return value.empty() || is_list_of_none;
}

/// What the size of a mask says; nothing for other fields.
std::optional<AnnotatedOn> raster_of_mask(const FieldType& type, const FieldValue& value, const StoredRaster& raster) {
  if (type.kind != FieldKind::kMask || detect_encoding(value) != Encoding::kPng) return {};
  const Extent extent = codec_for(Encoding::kPng).probe(value);
  return raster_of(extent.height, extent.width, raster);
}

/// Runs `body`, and names the field in an error that does not.
template <class Body>
void naming(const FieldType& type, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    const std::string name = concat("field ", in_quotes(type.name), ": "), message = error.what();
    throw Error(error.kind(), message.starts_with(name) ? message : name + message);
  }
}

}  // namespace

std::vector<uint8_t> upright_pixels(const Picture& picture, int orientation) {
  const Plan plan = Plan::upright(orientation, picture.height, picture.width);
  const Layout layout = own_layout(picture.type);
  std::vector<uint8_t> pixels(rendered_bytes(layout, {plan.output_height, plan.output_width, picture.channels}));
  render(picture, plan, Normalization::plain(PixelType::kF32), layout, pixels.data());
  return pixels;
}

bool turn_annotations(const std::vector<FieldType>& types, std::vector<FieldValue>& values, const StoredRaster& raster,
                      const Annotated& said) {
  const bool has_places = std::any_of(types.begin(), types.end(), [](const auto& t) { return is_in_pixels(t.kind); });
  std::optional<AnnotatedOn> stated;
  if (has_places && said.height > 0) {
    stated = raster_of(said.height, said.width, raster);
    if (!stated) throw wrong_size(raster, said);
  }
  const auto known = [&](const std::optional<AnnotatedOn>& by_size) {
    return by_size.value_or(AnnotatedOn::kUnknown) != AnnotatedOn::kUnknown ? *by_size : said.on;
  };
  const bool is_turned = raster.orientation != 1;
  for (size_t i = 0; i < types.size() && !stated && is_turned; ++i)
    naming(types[i], [&] { stated = raster_of_mask(types[i], values[i], raster); });
  const Turner turner(raster);
  bool is_unsure = false;
  for (size_t i = 0; i < types.size(); ++i) {
    const bool is_picture = types[i].kind == FieldKind::kPicture;
    if ((!is_picture && !is_in_pixels(types[i].kind)) || is_empty(types[i], values[i])) continue;
    naming(types[i], [&] {
      if (is_picture && raster.honours_exif) {
        const int own = own_orientation(values[i]);
        if (own != 1) return turn_picture(values[i], own);
      }
      if (!is_turned) return;
      const auto by_size = is_picture ? raster_of_proportions(probe_field_picture(values[i]).extent, raster)
                           : types[i].kind == FieldKind::kMask ? raster_of_mask(types[i], values[i], raster)
                                                               : stated;
      if (types[i].kind == FieldKind::kMask && !by_size) return;  // packing refuses it
      const AnnotatedOn on = known(by_size);
      is_unsure |= on == AnnotatedOn::kUnknown;
      if (on != AnnotatedOn::kRaw) return;
      is_picture ? turn_picture(values[i], raster.orientation) : turner.turn(types[i], values[i]);
    });
  }
  return is_unsure;
}

}  // namespace penstock::detail
