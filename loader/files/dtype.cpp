// Dtype: sizes, names and numbers.
#include "loader/files/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace penstock {
namespace {

struct Entry {
  Dtype dtype;
  std::string_view name;
  size_t bytes;
};

constexpr std::array<Entry, 13> kEntries{{{Dtype::kU8, "U8", 1},
                                          {Dtype::kF16, "F16", 2},
                                          {Dtype::kBf16, "BF16", 2},
                                          {Dtype::kF32, "F32", 4},
                                          {Dtype::kI64, "I64", 8},
                                          {Dtype::kU64, "U64", 8},
                                          {Dtype::kBool, "BOOL", 1},
                                          {Dtype::kI8, "I8", 1},
                                          {Dtype::kI16, "I16", 2},
                                          {Dtype::kU16, "U16", 2},
                                          {Dtype::kI32, "I32", 4},
                                          {Dtype::kU32, "U32", 4},
                                          {Dtype::kF64, "F64", 8}}};

const Entry& entry_of(Dtype dtype) { return kEntries[static_cast<size_t>(dtype)]; }

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

size_t element_bytes(Dtype dtype) { return entry_of(dtype).bytes; }
std::string_view dtype_name(Dtype dtype) { return entry_of(dtype).name; }

std::optional<Dtype> dtype_of_name(std::string_view name) {
  for (const auto& entry : kEntries)
    if (entry.name == name) return entry.dtype;
  return {};
}

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
