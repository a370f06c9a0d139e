// Column: one array of a batch. ColumnMaker: a plug-in that adds some.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "augment/plan/plan.h"
#include "augment/render.h"
#include "core/registry.h"
#include "loader/files/dtype.h"
#include "loader/files/sample.h"
#include "loader/shards/dataset.h"

namespace penstock {

Dtype dtype_of(Layout layout);  ///< Of its pixels.

/// An array with an entry for every row of a batch.
struct Column {
  /// The columns that every loader fills, by their number in Batch::columns(). The last two are there only with mixup
  /// or cutmix. Columns of makers come after them.
  enum Known : size_t { kImages, kLabels, kIds, kWeights, kSecondLabels, kMixWeights };

  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape = {};  ///< Of one row. Empty: a number per row.

  size_t row_bytes() const;
};

/// A column of pictures of this extent and layout.
Column pixel_column(std::string name, const Extent& extent, Layout layout);

/// A row that has a sample and is complete but for the columns of makers.
struct ColumnRow {
  const Sample& sample;
  uint64_t index;                     ///< Of the sample in the split.
  int64_t epoch;                      ///< In which `plan` was drawn.
  const Plan& plan;                   ///< What the transforms do to this sample: from output pixels to stored ones.
  std::span<const std::byte> pixels;  ///< As rendered, and mixed where the batch is.
};

/// Where the columns of one maker lie for one row, in the order of ColumnMaker::columns().
using ColumnCells = std::span<std::byte* const>;

/// Fills columns of every batch of a loader (LoaderOptions::columns).
///
/// Determinism: make() writes the same bytes for equal rows; the digest has them. Rows without a sample, and rows of a
/// corrupt one, are zeroed instead. Errors: what make() throws is an error of its batch; a corrupt_error is one of its
/// sample (OnCorrupt). Thread-safety: several workers call make() at once.
class ColumnMaker {
 public:
  virtual ~ColumnMaker() = default;
  static constexpr size_t kMostColumns = 16;

  /// 1 to kMostColumns, the same at every call.
  virtual std::vector<Column> columns() const = 0;
  /// Whether they say something of places in the picture, as masks and boxes do. mixup and cutmix, which put pixels of
  /// another row there, are then refused.
  virtual bool is_in_pixels() const { return false; }
  /// The field of key points of which nobody has said which ones change places in a mirrored picture; "": none.
  virtual std::string lacks_pairs() const { return {}; }
  /// Writes row_bytes() bytes of every column.
  virtual void make(const ColumnRow& row, ColumnCells to) const = 0;
};

/// What the factory of a maker gets to know of the loader. The data set outlives the maker.
struct ColumnContext {
  const Dataset& dataset;
  Extent extent;  ///< Of ColumnRow::pixels, as `layout` is.
  Layout layout;
};

struct ColumnKind {
  using Interface = ColumnMaker;
  static constexpr const char* kName = "column";
  using Factory = std::function<std::unique_ptr<ColumnMaker>(const Spec&, const ColumnContext&)>;
};
using ColumnRegistry = Registry<ColumnKind>;

}  // namespace penstock
