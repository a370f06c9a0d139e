// RasterSums: each picture's sums in f64, which are then added without rounding.
#include "loader/pack/raster_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace penstock::detail {
namespace {

constexpr int kLeastBit = -128, kPartBits = 32, kMantissaBits = 53;

/// The sums of one picture, one entry per channel.
struct PictureSums {
  std::array<uint64_t, kMaxChannels> count{};
  std::array<double, kMaxChannels> sum{}, squares{};
};

template <class Level>
void add_pixels(const Picture& picture, PictureSums& sums) {
  const auto channels = static_cast<size_t>(picture.channels);
  for (int row = 0; row < picture.height; ++row) {
    const uint8_t* at = picture.pixels + row * picture.row_stride;
    for (int column = 0; column < picture.width; ++column)
      for (size_t channel = 0; channel < channels; ++channel, at += sizeof(Level)) {
        Level level;
        std::memcpy(&level, at, sizeof level);
        const auto value = static_cast<double>(level);
        if (!std::isfinite(value)) continue;
        ++sums.count[channel];
        sums.sum[channel] += value;
        sums.squares[channel] += value * value;
      }
  }
}

}  // namespace

void ExactSum::add(double value) {
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);
  auto mantissa = static_cast<uint64_t>(std::ldexp(fraction, kMantissaBits));  // value = mantissa 2^(exponent - 53)
  int shift = exponent - kMantissaBits - kLeastBit;
  if (shift < 0) {
    mantissa = shift > -64 ? mantissa >> -shift : 0;
    shift = 0;
  }
  __extension__ using Wide = unsigned __int128;
  auto rest = static_cast<Wide>(mantissa) << (shift % kPartBits);
  for (auto part = static_cast<size_t>(shift / kPartBits); rest > 0; ++part, rest >>= kPartBits) {
    const auto low = static_cast<int64_t>(static_cast<uint32_t>(rest));
    parts_[part] += value < 0 ? -low : low;
  }
}

void ExactSum::add(const ExactSum& other) {
  for (size_t i = 0; i < kParts; ++i) parts_[i] += other.parts_[i];
}

double ExactSum::value() const {
  double sum = 0;
  for (size_t i = kParts; i-- > 0;)
    sum += std::ldexp(static_cast<double>(parts_[i]), kPartBits * static_cast<int>(i) + kLeastBit);
  return sum;
}

void RasterSums::add(const Picture& picture) {
  PictureSums sums;
  if (type_ == PixelType::kU8) add_pixels<uint8_t>(picture, sums);
  if (type_ == PixelType::kU16) add_pixels<uint16_t>(picture, sums);
  if (type_ == PixelType::kF32) add_pixels<float>(picture, sums);
  for (size_t i = 0; i < channels_.size(); ++i) {
    channels_[i].count += sums.count[i];
    channels_[i].sum.add(sums.sum[i]);
    channels_[i].squares.add(sums.squares[i]);
  }
}

void RasterSums::add(const RasterSums& other) {
  for (size_t i = 0; i < channels_.size(); ++i) {
    channels_[i].count += other.channels_[i].count;
    channels_[i].sum.add(other.channels_[i].sum);
    channels_[i].squares.add(other.channels_[i].squares);
  }
}

DataStatistics RasterSums::statistics() const {
  DataStatistics statistics{.channels = channels(), .pixels = type_};
  for (size_t i = 0; i < channels_.size(); ++i) {
    const auto& [count, sum, squares] = channels_[i];
    statistics.mean[i] = statistics.deviation[i] = 0;
    if (count == 0) continue;
    const double mean = sum.value() / static_cast<double>(count);
    const double variance = squares.value() / static_cast<double>(count) - mean * mean;
    statistics.mean[i] = mean / white_level(type_);
    statistics.deviation[i] = std::sqrt(std::max(variance, 0.0)) / white_level(type_);
  }
  return statistics;
}

void RasterSums::append_to(std::vector<uint64_t>& numbers) const {
  numbers.push_back(static_cast<uint64_t>(type_));
  for (const auto& [count, sum, squares] : channels_) {
    numbers.push_back(count);
    for (const auto* one : {&sum, &squares})
      for (const int64_t part : one->parts()) numbers.push_back(std::bit_cast<uint64_t>(part));
  }
}

std::optional<RasterSums> RasterSums::from_numbers(std::span<const uint64_t> numbers) {
  constexpr size_t kPerChannel = 1 + 2 * ExactSum::kParts;
  if (numbers.empty() || numbers[0] > static_cast<uint64_t>(PixelType::kF32)) return {};
  const size_t channels = (numbers.size() - 1) / kPerChannel;
  if (channels < 1 || channels > kMaxChannels || numbers.size() != 1 + channels * kPerChannel) return {};
  RasterSums sums(static_cast<PixelType>(numbers[0]), static_cast<int>(channels));
  size_t next = 1;
  for (auto& channel : sums.channels_) {
    channel.count = numbers[next++];
    for (auto* one : {&channel.sum, &channel.squares})
      for (int64_t& part : one->parts()) part = std::bit_cast<int64_t>(numbers[next++]);
  }
  return sums;
}

}  // namespace penstock::detail
