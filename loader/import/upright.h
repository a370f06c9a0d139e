// upright: rasters and annotations turned as an orientation turns the picture that they belong to.
#pragma once

#include <cstdint>
#include <vector>

#include "augment/render.h"
#include "loader/files/field.h"

namespace penstock::detail {

/// How a file stores a picture.
struct StoredRaster {
  int height = 0, width = 0;
  int orientation = 1;       // by which the picture is turned; 1 also where that is not honoured
  bool honours_exif = true;  // whether a second picture is turned by its own orientation
};

/// The pixels of a picture turned by `orientation`, H x W x C of its own type.
std::vector<uint8_t> upright_pixels(const Picture& picture, int orientation);

/// Turns the values of fields that were annotated on the raw raster: boxes, key points, whose pairs change places where
/// the turn mirrors, polygons, runs, masks, and second pictures. Which raster it was is said by a size: that of a mask
/// for the mask, the one that is stated for all others or, without it, that of a mask; for a second picture by its
/// orientation, or else by its proportions. Where the size fits both rasters, `said.on` counts. `values`: one per type.
///
/// Returns whether nothing said which raster it was; such values are left as they are. Throws corrupt_error for a
/// stated size that fits neither, and for values that are none in the raw raster.
bool turn_annotations(const std::vector<FieldType>& types, std::vector<FieldValue>& values, const StoredRaster& raster,
                      const Annotated& said);

}  // namespace penstock::detail
