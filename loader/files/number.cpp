// number_reader(): one function per dtype, those of 16 bits with a point made of f32.
#include "loader/files/number.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace penstock {
namespace {

template <class Number>
Number loaded(const uint8_t* at) {
  Number number{};
  std::memcpy(&number, at, sizeof number);
  return number;
}

template <class Number>
double number_at(const uint8_t* at) {
  return static_cast<double>(loaded<Number>(at));
}

/// IEEE 754 binary16.
double half_at(const uint8_t* at) {
  const auto half = loaded<uint16_t>(at);
  const double sign = (half & 0x8000) != 0 ? -1 : 1;
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  if (exponent == 31) return sign * (fraction == 0 ? INFINITY : NAN);
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25));
}

/// The upper half of an f32.
double bfloat_at(const uint8_t* at) { return std::bit_cast<float>(uint32_t{loaded<uint16_t>(at)} << 16); }

}  // namespace

double (*number_reader(Dtype dtype))(const uint8_t* at) {
  // In the order of Dtype.
  static constexpr std::array kReaders{number_at<uint8_t>, half_at,
                                       bfloat_at,          number_at<float>,
                                       number_at<int64_t>, number_at<uint64_t>,
                                       number_at<uint8_t>, number_at<int8_t>,
                                       number_at<int16_t>, number_at<uint16_t>,
                                       number_at<int32_t>, number_at<uint32_t>,
                                       number_at<double>};
  return kReaders.at(static_cast<size_t>(dtype));
}

}  // namespace penstock
