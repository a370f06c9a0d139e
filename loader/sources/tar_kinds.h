// TarKinds: what tars cannot say about the files in them, as a member that an export writes and the reader takes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "loader/files/field.h"

namespace penstock::detail {

/// The member's name. WebDataset's programs pass over a name between two underscores on each side.
constexpr std::string_view kKindsMember = "__penstock__";

/// Names of the classes, none where samples have no class, and the types of the fields, where `most` is 0.
struct TarKinds {
  std::vector<std::string> class_names;
  std::vector<FieldType> fields;
  bool operator==(const TarKinds&) const = default;
};

/// JSON: `class_names`, and `fields` as in a manifest.
std::string text_of_kinds(const TarKinds& kinds);
/// Throws corrupt_error `<where>: ...`.
TarKinds kinds_of_text(std::string_view text, const std::string& where);

/// Whether the files of this ending, in lower case, are a field of pictures, of which some may be arrays: depth.npy.
bool is_picture_by_kinds(const TarKinds& kinds, const std::string& ending);

/// The type that `kinds` has for a file that was found to be of `found`: the one with its name, whatever its case. It
/// is `found` itself where there is none. Throws corrupt_error `<where>: ...` where a value of one cannot be one of the
/// other.
FieldType type_by_kinds(const TarKinds& kinds, const FieldType& found, const std::string& where);

}  // namespace penstock::detail
