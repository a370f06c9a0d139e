// RasterSums: mean and deviation of pictures of u16, f32 or any number of channels, whatever the order of adding.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "augment/render.h"
#include "augment/transform.h"

namespace penstock::detail {

/// A sum of f64 without rounding, so that the order of adding does not matter. What lies below 2^-128 is cut off.
class ExactSum {
 public:
  static constexpr size_t kParts =
      16;  // up to 2^352; the square of the greatest f32, times 2^28 pixels, is below 2^284

  void add(double value);  ///< Requires a finite number of less than 2^284. Holds the sum of 2^31 of them.
  void add(const ExactSum& other);
  double value() const;  ///< Rounded.
  std::array<int64_t, kParts>& parts() { return parts_; }
  const std::array<int64_t, kParts>& parts() const { return parts_; }

 private:
  std::array<int64_t, kParts> parts_{};  // part k counts 2^(32 k - 128)
};

/// The levels of rasters that are all of one type and number of channels. NaN and infinity do not count.
class RasterSums {
 public:
  RasterSums(PixelType type, int channels) : type_(type), channels_(static_cast<size_t>(channels)) {}

  PixelType type() const { return type_; }
  int channels() const { return static_cast<int>(channels_.size()); }
  void add(const Picture& picture);  ///< Requires the same kind of pictures, as the next one does.
  void add(const RasterSums& other);
  /// Mean and standard deviation of level / white_level().
  DataStatistics statistics() const;

  void append_to(std::vector<uint64_t>& numbers) const;
  /// Nothing for numbers that append_to() does not give.
  static std::optional<RasterSums> from_numbers(std::span<const uint64_t> numbers);

 private:
  struct Channel {
    uint64_t count = 0;
    ExactSum sum, squares;
  };

  PixelType type_;
  std::vector<Channel> channels_;
};

}  // namespace penstock::detail
