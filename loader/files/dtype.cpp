// Dtype: sizes and names.
#include "loader/files/dtype.h"

#include <array>

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

}  // namespace

size_t element_bytes(Dtype dtype) { return entry_of(dtype).bytes; }
std::string_view dtype_name(Dtype dtype) { return entry_of(dtype).name; }

std::optional<Dtype> dtype_of_name(std::string_view name) {
  for (const auto& entry : kEntries)
    if (entry.name == name) return entry.dtype;
  return {};
}

}  // namespace penstock
