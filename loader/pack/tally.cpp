// Tally: integer sums, divided once.
#include "loader/pack/tally.h"

#include <cmath>
#include <span>

#include "core/error.h"
#include "core/text.h"
#include "loader/pack/level_sums.h"

namespace penstock::detail {
namespace {

__extension__ using Wide = unsigned __int128;

}  // namespace

/// Grey and RGB pictures of u8 may be together; rasters are all alike.
void Tally::check_kind(PixelType type, int channel_count) const {
  const bool is_alike = raster_ ? type == pixels() && channel_count == channels() : !is_raster(type, channel_count);
  if (sample_count_ == 0 || is_alike) return;
  throw config_error(concat("pictures have ", pixels_text(type, channel_count), " and ",
                            pixels_text(pixels(), channels()), "; expected all of one kind"));
}

void Tally::add(int64_t label, const Picture& picture) {
  check_kind(picture.type, picture.channels);
  ++sample_count_;
  if (!class_counts_.empty()) ++class_counts_[static_cast<size_t>(label)];
  const std::array<int, 3> extent{picture.height, picture.width, picture.channels};
  for (size_t i = 0; i < sides_.size(); ++i) {
    const auto side = static_cast<uint64_t>(extent[i]);
    sides_[i] = {std::min(sides_[i].least, side), std::max(sides_[i].greatest, side)};
  }
  if (is_raster(picture.type, picture.channels)) {
    if (!raster_) raster_.emplace(picture.type, picture.channels);
    return raster_->add(picture);
  }
  const size_t first = picture.channels == 1 ? 0 : 1, channel_count = static_cast<size_t>(picture.channels);
  for (int row = 0; row < picture.height; ++row) {
    const auto sums = level_sums(picture.pixels + row * picture.row_stride, picture.width, picture.channels);
    for (size_t channel = 0; channel < channel_count; ++channel) {
      auto& levels = levels_[first + channel];
      levels.count += static_cast<uint64_t>(picture.width);
      levels.sum += sums[channel].sum;
      levels.sum_of_squares += sums[channel].sum_of_squares;
    }
  }
}

void Tally::add(const Tally& other) {
  if (other.sample_count_ > 0) check_kind(other.pixels(), other.channels());
  sample_count_ += other.sample_count_;
  if (other.raster_ && !raster_)
    raster_ = other.raster_;
  else if (other.raster_)
    raster_->add(*other.raster_);
  for (size_t i = 0; i < class_counts_.size(); ++i) class_counts_[i] += other.class_counts_[i];
  for (size_t i = 0; i < field_most_.size(); ++i) add_field(i, other.field_most_[i]);
  for (size_t i = 0; i < levels_.size(); ++i) {
    levels_[i].count += other.levels_[i].count;
    levels_[i].sum += other.levels_[i].sum;
    levels_[i].sum_of_squares += other.levels_[i].sum_of_squares;
  }
  for (size_t i = 0; i < sides_.size(); ++i) {
    sides_[i] = {std::min(sides_[i].least, other.sides_[i].least),
                 std::max(sides_[i].greatest, other.sides_[i].greatest)};
  }
}

std::optional<Extent> Tally::extent() const {
  for (const auto& side : sides_)
    if (side.least != side.greatest) return {};
  return Extent{static_cast<int>(sides_[0].least), static_cast<int>(sides_[1].least),
                static_cast<int>(sides_[2].least)};
}

DataStatistics Tally::statistics() const {
  if (raster_) return raster_->statistics();
  DataStatistics statistics;
  statistics.channels = channels();
  for (int channel = 0; channel < statistics.channels; ++channel) {
    const Levels& own = statistics.channels == 1 ? Levels{} : levels_[static_cast<size_t>(1 + channel)];
    const Wide count = own.count + levels_[0].count;
    if (count == 0) continue;
    const Wide sum = own.sum + levels_[0].sum, squares = own.sum_of_squares + levels_[0].sum_of_squares;
    const auto divisor = static_cast<double>(count) * 255;
    // n * sum(x^2) - sum(x)^2 is exact in 128 bits, so that the subtraction loses no digits.
    const auto spread = static_cast<double>(count * squares - sum * sum);
    statistics.mean[static_cast<size_t>(channel)] = static_cast<double>(sum) / divisor;
    statistics.deviation[static_cast<size_t>(channel)] = std::sqrt(spread) / divisor;
  }
  return statistics;
}

template <class Self, class Visit>
void Tally::visit(Self& self, Visit&& each_number) {
  each_number(self.sample_count_);
  for (auto& count : self.class_counts_) each_number(count);
  for (auto& count : self.field_most_) each_number(count);
  for (auto& levels : self.levels_) {
    each_number(levels.count);
    each_number(levels.sum);
    each_number(levels.sum_of_squares);
  }
  for (auto& side : self.sides_) {
    each_number(side.least);
    each_number(side.greatest);
  }
}

std::vector<uint64_t> Tally::numbers() const {
  std::vector<uint64_t> numbers;
  visit(*this, [&](const uint64_t& number) { numbers.push_back(number); });
  if (raster_) raster_->append_to(numbers);
  return numbers;
}

std::optional<Tally> Tally::from_numbers(const Tally& of_the_same_shape, const std::vector<uint64_t>& numbers) {
  Tally tally = of_the_same_shape;
  tally.raster_.reset();
  size_t next = 0;
  const size_t count = tally.numbers().size();
  if (numbers.size() < count) return {};
  visit(tally, [&](uint64_t& number) { number = numbers[next++]; });
  if (numbers.size() == count) return tally;
  tally.raster_ = RasterSums::from_numbers(std::span(numbers).subspan(count));
  return tally.raster_ ? std::optional(tally) : std::nullopt;
}

}  // namespace penstock::detail
