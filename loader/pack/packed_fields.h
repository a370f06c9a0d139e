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

/// Thread-safety: immutable.
struct PackedFields {
  std::vector<FieldType> types;  ///< Sorted by name.
  std::vector<size_t> places;    ///< One per type: its number in Source::fields().

  /// The values in the order of `types`, of a sample whose picture is stored as `picture`. Throws corrupt_error
  /// `field "x": ...` for what check_field_value() refuses, lists of different lengths where one is of the other, a
  /// mask that is no PNG of the picture's size, and a picture that is no PNG.
  std::vector<FieldValue> checked(std::vector<FieldValue> values, const Encoded& picture) const;
  /// Adds how many entries the values have.
  void count(const std::vector<FieldValue>& values, Tally& tally) const;
  /// `types` as the manifest has them.
  std::vector<FieldType> with_most(const Tally& total) const;
  /// All that may change what is packed; "" without fields.
  std::string text() const;
};

/// Throws config_error for fields that no manifest can have, and for those in pixels of a picture that is resized.
PackedFields packed_fields(const Source& source, const StorageOptions& storage);

}  // namespace penstock::detail
