// PackedFields: sorts and checks what a source gives.
#include "loader/pack/packed_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/codecs/field_picture.h"
#include "loader/codecs/mask_png.h"
#include "loader/files/instance_masks.h"
#include "loader/shards/manifest_fields.h"

namespace penstock::detail {
namespace {

/// The picture as it is seen: height and width change places where its orientation turns it.
Extent upright_extent(const Encoded& picture) {
  const auto [height, width, channels] = picture.extent;
  return picture.orientation > 4 ? Extent{width, height, channels} : picture.extent;
}

void check_png(const FieldType& type, FieldBytes bytes, int height, int width) {
  if (type.kind == FieldKind::kPicture) return void(probe_field_picture(bytes));
  if (detect_encoding(bytes) != Encoding::kPng)
    throw corrupt_error(concat(bytes.size(), " bytes, which is no PNG; expected one"));
  if (type.kind == FieldKind::kMask) decode_mask(bytes, height, width);
}

/// `of`: how many entries the field has that this one belongs to.
void check_count(const FieldType& type, FieldBytes bytes, uint64_t of, int height, int width) {
  if (type.kind == FieldKind::kInstances) return check_instances(type, bytes, of, height, width);
  const uint64_t count = bytes.size() / type.entry_bytes();
  if (count != of)
    throw corrupt_error(concat("field ", in_quotes(type.name), ": ", count, " entries; expected ", of,
                               ", one for each of ", in_quotes(type.of)));
}

}  // namespace

void check_entries(const std::vector<FieldType>& types, const std::vector<FieldBytes>& values, int height, int width) {
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
    check_count(types[i], values[i], values[of].size() / types[of].entry_bytes(), height, width);
  }
}

std::vector<FieldValue> PackedFields::checked(std::vector<FieldValue> values, const Encoded& picture) const {
  if (values.size() != types.size())
    throw corrupt_error(concat("has ", values.size(), " fields; expected ", types.size(), ", as other samples have"));
  const Extent extent = upright_extent(picture);
  std::vector<FieldValue> sorted;
  for (size_t i = 0; i < types.size(); ++i) {
    sorted.push_back(std::move(values[places[i]]));
    check_field_value(types[i], sorted[i], extent.height, extent.width);
  }
  check_entries(types, {sorted.begin(), sorted.end()}, extent.height, extent.width);
  return sorted;
}

void PackedFields::count(const std::vector<FieldValue>& values, Tally& tally) const {
  for (size_t i = 0; i < types.size(); ++i)
    if (types[i].is_variable()) tally.add_field(i, values[i].size() / types[i].entry_bytes());
}

std::string PackedFields::text() const { return types.empty() ? "" : concat('\n', json_of_fields(types).dump()); }

PackedFields packed_fields(const Source& source, const StorageOptions& storage) {
  const auto given = source.fields();
  PackedFields fields{checked_fields(given, "pack"), {}};
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
