// Dtype: the type of a number in a shard or a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock {

enum class Dtype : uint8_t { kU8, kF16, kBf16, kF32, kI64, kU64, kBool, kI8, kI16, kU16, kI32, kU32, kF64 };

size_t element_bytes(Dtype dtype);
/// As safetensors spells it: "U8", "BF16", "I64", ...
std::string_view dtype_name(Dtype dtype);
std::optional<Dtype> dtype_of_name(std::string_view name);  ///< Nothing for a name that is none.

}  // namespace penstock
