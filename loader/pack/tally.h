// Tally: counts what the manifest says about decoded pictures, in whole numbers, so that the order of adding does not
// matter.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "augment/render.h"
#include "augment/transform.h"
#include "loader/pack/raster_sums.h"

namespace penstock::detail {

class Tally {
 public:
  explicit Tally(size_t class_count, size_t field_count = 0) : class_counts_(class_count), field_most_(field_count) {}

  /// Requires 0 <= label < class count, or, without classes, -1. Both throw config_error for rasters together with
  /// pictures of another kind.
  void add(int64_t label, const Picture& picture);
  void add(const Tally& other);
  void add_field(size_t number, uint64_t entry_count) {
    field_most_[number] = std::max(field_most_[number], entry_count);
  }

  const std::vector<uint64_t>& class_counts() const { return class_counts_; }
  uint64_t field_most(size_t number) const { return field_most_[number]; }  ///< The most entries that a sample has.
  uint64_t sample_count() const { return sample_count_; }
  int channels() const { return raster_ ? raster_->channels() : levels_[1].count > 0 ? 3 : 1; }
  PixelType pixels() const { return raster_ ? raster_->type() : PixelType::kU8; }
  /// The extent of all pictures; nothing when they differ.
  std::optional<Extent> extent() const;
  /// Mean and standard deviation (of the population) of level / 255. A grey picture among RGB ones counts in each
  /// channel.
  DataStatistics statistics() const;

  /// All counts as numbers, for the state of an interrupted packing; those of rasters come last. from_numbers() returns
  /// nothing when there are not as many as there should be.
  std::vector<uint64_t> numbers() const;
  static std::optional<Tally> from_numbers(const Tally& of_the_same_shape, const std::vector<uint64_t>& numbers);

 private:
  struct Levels {  // sums hold 2^64 / 255^2 = 2.8e14 pixels
    uint64_t count = 0, sum = 0, sum_of_squares = 0;
  };
  struct Sides {
    uint64_t least = std::numeric_limits<uint64_t>::max(), greatest = 0;
  };

  void check_kind(PixelType type, int channel_count) const;
  template <class Self, class Visit>
  static void visit(Self& self, Visit&& each_number);

  uint64_t sample_count_ = 0;
  std::vector<uint64_t> class_counts_;
  std::vector<uint64_t> field_most_;
  std::array<Levels, 4> levels_;      // grey pictures; then red, green and blue of the others
  std::array<Sides, 3> sides_;        // height, width, channels
  std::optional<RasterSums> raster_;  // where all pictures are rasters
};

}  // namespace penstock::detail
