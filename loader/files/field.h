// Field: what a sample has besides its picture and its class.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/files/dtype.h"

namespace penstock {

/// What a field means, which decides how a batch delivers it. The names are those of the manifest.
enum class FieldKind : uint8_t {
  kNumber,     // "number": delivered as it is
  kText,       // "text": UTF-8; u8, variable
  kBytes,      // "bytes": u8, variable
  kLabels,     // "labels": i64, variable: classes of a sample with several or, with `of`, of its boxes
  kBoxes,      // "boxes": f32, [n, 4]: x0, y0, x1, y1 in pixels of the upright picture, whose edges are 0 and its size
  kKeypoints,  // "keypoints": f32, [n, k, 3]: x, y as for boxes, and v, 0 for a point that is not there
  kMask,       // "mask": u8, variable: a PNG with a value per pixel of the upright picture
  kInstances,  // "instances": u8, variable: a mask per entry of `of`, as instance_masks.h has it
  kPicture,    // "picture": u8, variable: a PNG, of 8 or 16 bits
};

/// A field of a data set, which every sample of it has.
struct FieldType {
  std::string name;  ///< Letters, digits, `_`, `-` and `.`, 1 to 64 of them; the first is a letter or a digit.
  FieldKind kind = FieldKind::kNumber;
  Dtype dtype = Dtype::kF32;
  /// The shape of one sample's value; empty: a single number. A first size of kVariable differs between samples.
  std::vector<int64_t> shape = {};
  /// The field of boxes (or of key points) whose entries this one describes, entry by entry; "": none. What leaves out
  /// a box leaves out its entries.
  std::string of = {};
  /// What a mask or picture has outside of the stored one; the value of a pixel.
  double fill = 0;
  /// For key points: pairs that must be exchanged when the picture is mirrored, such as the left and right hand.
  /// Nothing: nobody has said whether there are some.
  std::optional<std::vector<std::pair<int, int>>> swapped = {};
  /// For labels: their names; the labels are 0 to the number of names less 1. Empty: any numbers.
  std::vector<std::string> names = {};
  /// For a variable field of a packed data set: the largest number of entries in any sample. Otherwise 0.
  uint64_t most = 0;

  static constexpr int64_t kVariable = -1;

  bool is_variable() const { return !shape.empty() && shape.front() == kVariable; }
  /// Elements of one sample or, of a variable field, of one entry. 1 for one number.
  uint64_t element_count() const;
  uint64_t entry_bytes() const { return element_count() * element_bytes(dtype); }
  bool operator==(const FieldType&) const = default;
};

/// The bytes of one field of one sample: little-endian, row-major, a multiple of FieldType::entry_bytes() (once it, for
/// a field that is not variable).
using FieldBytes = std::span<const uint8_t>;
/// The same, owned.
using FieldValue = std::vector<uint8_t>;

/// Where annotations were made: in the raster as its file stores it, or as the file's orientation (EXIF, XMP) turns it.
enum class AnnotatedOn : uint8_t { kUnknown, kRaw, kUpright };

/// What a source knows about that.
struct Annotated {
  AnnotatedOn on = AnnotatedOn::kUnknown;  ///< What counts where sizes cannot tell.
  int height = 0, width = 0;               ///< The picture's, as the annotations state them; 0: they do not.
};

/// "[n, 4]", for messages.
std::string shape_text(const std::vector<int64_t>& shape);
/// "\"boxes\": boxes F32 [n, 4]", for messages.
std::string type_text(const FieldType& type);

std::string_view field_kind_name(FieldKind kind);
std::optional<FieldKind> field_kind_of_name(std::string_view name);  ///< Nothing for a name that is none.
/// Whether values say where something is in the picture, by its pixels: those of boxes, key points and masks.
bool is_in_pixels(FieldKind kind);

/// Throws config_error `<where>: field "x": ...` for a name, dtype or shape that `type.kind` cannot have.
void check_field_type(const FieldType& type, const std::string& where);
/// Throws corrupt_error `field "x": ...` for bytes that are not a value of `type`: a wrong size, text that is no UTF-8,
/// boxes that are inverted, not finite or outside of a picture of `height` x `width` (upright) by more than a pixel.
void check_field_value(const FieldType& type, FieldBytes bytes, int height, int width);

}  // namespace penstock
