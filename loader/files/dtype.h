// Dtype: the type of a number in a shard or a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "augment/pixels/pixels.h"

namespace penstock {

enum class Dtype : uint8_t { kU8, kF16, kBf16, kF32, kI64, kU64, kBool, kI8, kI16, kU16, kI32, kU32, kF64 };

constexpr Dtype dtype_of(PixelType type) {
  return type == PixelType::kU8 ? Dtype::kU8 : type == PixelType::kU16 ? Dtype::kU16 : Dtype::kF32;
}
constexpr std::optional<PixelType> pixel_type_of(Dtype dtype) {  ///< Nothing for one that no picture has.
  for (const PixelType type : {PixelType::kU8, PixelType::kU16, PixelType::kF32})
    if (dtype_of(type) == dtype) return type;
  return {};
}
size_t element_bytes(Dtype dtype);
/// As safetensors spells it: "U8", "BF16", "I64", ...
std::string_view dtype_name(Dtype dtype);
std::optional<Dtype> dtype_of_name(std::string_view name);  ///< Nothing for a name that is none.

/// How a number of this dtype is read as a double; it need not be aligned. Exact, but for whole numbers beyond 2^53,
/// which are rounded.
double (*number_reader(Dtype dtype))(const uint8_t* at);

}  // namespace penstock
