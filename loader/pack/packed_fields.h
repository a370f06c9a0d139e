// PackedFields: the fields of a source as a shard has them.
#pragma once

#include <string>
#include <vector>

#include "loader/files/field.h"
#include "loader/pack/encoder.h"
#include "loader/pack/tally.h"
#include "loader/shards/storage.h"
#include "loader/sources/source.h"

namespace penstock::detail {

/// The values of one sample, in the order of PackedFields::types, and what is to be counted of them.
struct CheckedFields {
  std::vector<FieldValue> values;
  bool is_unsure = false;           // nothing said on which raster they were annotated (turn_annotations())
  uint64_t flat_polygon_count = 0;  // polygons without an area
};

/// Thread-safety: immutable.
struct PackedFields {
  std::vector<FieldType> types;  ///< Sorted by name.
  std::vector<size_t> places;    ///< One per type: its number in Source::fields().
  bool honours_exif = true;      ///< StorageOptions::honours_exif.

  /// The values of a sample whose picture is stored as `picture`, turned as it is (turn_annotations()). Throws
  /// corrupt_error `field "x": ...` for what check_field_value() refuses, lists of different lengths where one is of
  /// the other, a mask that is no PNG of the picture's size, and a picture that is no PNG.
  CheckedFields checked(std::vector<FieldValue> values, const Encoded& picture, const Annotated& annotated = {}) const;
  /// Adds how many entries the values have.
  void count(const std::vector<FieldValue>& values, Tally& tally) const;
  /// All that may change what is packed; "" without fields.
  std::string text() const;
};

/// Throws corrupt_error `field "x": ...` for what check_field_value() does not see: lists of different lengths where
/// one is of the other, masks of objects that are none, a mask that is no PNG of the picture's size, and a picture that
/// is no PNG. `values`: one per type. Requires fields whose `of` is among them, as manifests have them. Returns the
/// number of polygons without an area.
uint64_t check_entries(const std::vector<FieldType>& types, const std::vector<FieldBytes>& values, int height,
                       int width);

/// What a packing says at its end about the sums of CheckedFields; nothing for zeros.
std::vector<std::string> field_notes(uint64_t unsure_count, uint64_t flat_polygon_count);

/// Throws config_error for fields that no manifest can have, and for those in pixels of a picture that is resized.
PackedFields packed_fields(const Source& source, const StorageOptions& storage);

}  // namespace penstock::detail
