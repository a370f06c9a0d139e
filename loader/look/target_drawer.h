// TargetDrawer: draws boxes, masks and key points over the pictures of a sheet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "loader/batch/loader.h"
#include "loader/shards/dataset.h"

namespace penstock::detail {

/// A cell of a sheet: RGB pixels, rows `stride` bytes apart.
struct SheetCell {
  uint8_t* pixels;
  ptrdiff_t stride;
  int height, width;
};

/// All fields of a data set that lie in the picture. Boxes are outlines, and instance masks and key points of a box
/// have its colour; the values of masks, but for 0 and the fill, are colours that are mixed with the picture. Equal
/// numbers have equal colours on every sheet.
class TargetDrawer {
 public:
  TargetDrawer() = default;  ///< Draws nothing.
  /// `cell`: the extent of the pictures. Instance masks that would take more than 2^28 bytes per picture are left out.
  TargetDrawer(const Dataset& dataset, const Extent& cell);

  bool is_empty() const { return fields_.empty(); }
  /// The columns that a loader has to have for draw().
  std::string columns() const;
  void draw(const Batch& batch, int64_t row, const SheetCell& cell) const;

 private:
  struct Field {
    FieldKind kind;
    std::string column, spec;
    int32_t fill = 0;                             // of a mask
    std::vector<std::string> points{}, shapes{};  // names of columns: of boxes
    size_t per_entry = 0;                         // key points, of a field of key points
  };
  static void draw_boxes(const Field& field, const Batch& batch, int64_t row, const SheetCell& cell);

  std::vector<Field> fields_;
};

}  // namespace penstock::detail
