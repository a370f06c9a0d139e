// make_sheet(): pictures as a model will see them, side by side on one sheet.
//
// Lives here: pictures for people: one sample as pixels, and sheets of what a model will see.
// Not here: anything that training needs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "augment/transform.h"
#include "loader/batch/loader.h"
#include "loader/shards/dataset.h"

namespace penstock {

struct SheetOptions {
  int rows = 8, columns = 8;
  uint64_t seed = 0;
  int64_t epoch = 0;
  Shuffle shuffle = Shuffle::kGlobal;
  /// The index of a sample, which is then in every cell, as it is in `epoch` and the epochs after it. Empty: the cells
  /// have the first samples of `epoch`.
  std::optional<uint64_t> sample = {};
};

struct Sheet {
  Extent extent;                // of the whole sheet; RGB where something is drawn over the pictures
  std::vector<uint8_t> pixels;  // H x W x C, white between the cells and where the data set has too few samples
  std::vector<int64_t> labels;  // one per filled cell, row by row, as the one below
  std::vector<uint64_t> ids;

  /// The sheet as a PNG file.
  std::vector<uint8_t> png() const;
};

/// The cells are made by a Loader, so that they are what a training with these transforms and this seed gets, in its
/// order, before normalisation. Masks, boxes and key points of the data set are drawn over them, but not where the
/// transforms mix rows. Of rasters (pixels.h) the first 3 channels are shown, or the first one, each stretched from its
/// least level in the cell, which is black, to its greatest.
/// Errors: config_error for a sheet without cells or of more than 2^28 pixels, for a sample that the data set does not
/// have, and for a negative epoch; and what a Loader throws, also for a corrupt sample.
Sheet make_sheet(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline, const SheetOptions& options);

}  // namespace penstock
