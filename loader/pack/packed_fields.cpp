// PackedFields: sorts and checks what a source gives.
#include "loader/pack/packed_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/codecs/field_picture.h"
#include "loader/codecs/mask_png.h"
#include "loader/files/instance_masks.h"
#include "loader/import/upright.h"
#include "loader/shards/manifest_fields.h"

namespace penstock::detail {
namespace {

/// The picture as it is seen: height and width change places where its orientation turns it.
Extent upright_extent(const Encoded& picture) {
  const auto [height, width, channels] = picture.extent;
  return picture.orientation > 4 ? Extent{width, height, channels} : picture.extent;
}

void check_png(const FieldType& type, FieldBytes bytes, int height, int width) {
  if (type.kind == FieldKind::kPicture) {
    DecodeScratch scratch;
    return void(decode_field_picture(bytes, scratch));  // all of it, as columns do
  }
  if (detect_encoding(bytes) != Encoding::kPng)
    throw corrupt_error(concat(bytes.size(), " bytes, which is no PNG; expected one"));
  if (type.kind == FieldKind::kMask) decode_mask(bytes, height, width);
}

/// `of`: how many entries the field has that this one belongs to. Returns the number of polygons without an area.
uint64_t check_count(const FieldType& type, FieldBytes bytes, uint64_t of, int height, int width) {
  if (type.kind == FieldKind::kInstances) return check_instances(type, bytes, of, height, width);
  const uint64_t count = bytes.size() / type.entry_bytes();
  if (count != of)
    throw corrupt_error(concat("field ", in_quotes(type.name), ": ", count, " entries; expected ", of,
                               ", one for each of ", in_quotes(type.of)));
  return 0;
}

}  // namespace

uint64_t check_entries(const std::vector<FieldType>& types, const std::vector<FieldBytes>& values, int height,
                       int width) {
  uint64_t flat_count = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].kind == FieldKind::kMask || types[i].kind == FieldKind::kPicture) {
      try {
        check_png(types[i], values[i], height, width);
      } catch (const Error& error) {
        throw Error(error.kind(), concat("field ", in_quotes(types[i].name), ": ", error.what()));
      }
    }
    if (types[i].of.empty()) continue;
    const auto of = static_cast<size_t>(
        std::find_if(types.begin(), types.end(), [&](const auto& type) { return type.name == types[i].of; }) -
        types.begin());
    flat_count += check_count(types[i], values[i], values[of].size() / types[of].entry_bytes(), height, width);
  }
  return flat_count;
}

CheckedFields PackedFields::checked(std::vector<FieldValue> values, const Encoded& picture,
                                    const Annotated& annotated) const {
  if (values.size() != types.size())
    throw corrupt_error(concat("has ", values.size(), " fields; expected ", types.size(), ", as other samples have"));
  const Extent extent = upright_extent(picture);
  CheckedFields checked;
  for (const size_t place : places) checked.values.push_back(std::move(values[place]));
  const bool lies = picture.turned_by > 4;
  checked.is_unsure = turn_annotations(types, checked.values,
                                       {.height = lies ? extent.width : extent.height,
                                        .width = lies ? extent.height : extent.width,
                                        .orientation = picture.turned_by,
                                        .honours_exif = honours_exif},
                                       annotated);
  try {
    for (size_t i = 0; i < types.size(); ++i)
      check_field_value(types[i], checked.values[i], extent.height, extent.width);
    checked.flat_polygon_count =
        check_entries(types, {checked.values.begin(), checked.values.end()}, extent.height, extent.width);
  } catch (const Error& error) {
    if (!checked.is_unsure) throw;
    throw Error(error.kind(), concat(error.what(), ", or annotations=raw if it was annotated before orientation ",
                                     static_cast<int>(picture.turned_by), " turns the picture"));
  }
  return checked;
}

std::vector<std::string> field_notes(uint64_t unsure_count, uint64_t flat_polygon_count) {
  std::vector<std::string> notes;
  if (unsure_count > 0)
    notes.push_back(concat(count_text(unsure_count, "picture"), unsure_count == 1 ? " has" : " have",
                           " annotations and an orientation in EXIF or XMP, and no size tells whether they were ",
                           "annotated as stored or as turned; taken as turned: say annotations=upright, or ",
                           "annotations=raw for the other"));
  if (flat_polygon_count > 0)
    notes.push_back(concat(count_text(flat_polygon_count, "polygon"), flat_polygon_count == 1 ? " has" : " have",
                           " fewer than 3 points and so no area; kept, and nothing is drawn of them"));
  return notes;
}

void PackedFields::count(const std::vector<FieldValue>& values, Tally& tally) const {
  for (size_t i = 0; i < types.size(); ++i)
    if (types[i].is_variable()) tally.add_field(i, values[i].size() / types[i].entry_bytes());
}

std::string PackedFields::text() const { return types.empty() ? "" : concat('\n', json_of_fields(types).dump()); }

PackedFields packed_fields(const Source& source, const StorageOptions& storage) {
  const auto given = source.fields();
  PackedFields fields{checked_fields(given, "pack"), {}, storage.honours_exif};
  for (const auto& type : fields.types) {
    if (storage.resize_short > 0 && is_in_pixels(type.kind))
      throw config_error(concat("pack: resize is ", storage.resize_short, ", and field ", in_quotes(type.name),
                                " is in pixels of the picture; expected no resize"));
    const auto has_name = [&](const auto& other) { return other.name == type.name; };
    fields.places.push_back(static_cast<size_t>(std::find_if(given.begin(), given.end(), has_name) - given.begin()));
  }
  return fields;
}

}  // namespace penstock::detail
