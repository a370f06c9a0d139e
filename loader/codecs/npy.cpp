// parse_npy(): NEP 1. The header is a Python dict literal, of which the three keys of every array are read.
#include "loader/codecs/npy.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/number.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

[[noreturn]] void refuse_npy(const std::string& fact, std::string_view expected) {
  throw corrupt_error(concat("npy: ", fact, "; expected ", expected));
}

constexpr std::array<std::pair<std::string_view, Dtype>, 12> kDtypes{{{"|u1", Dtype::kU8},
                                                                      {"|i1", Dtype::kI8},
                                                                      {"|b1", Dtype::kBool},
                                                                      {"<u2", Dtype::kU16},
                                                                      {"<i2", Dtype::kI16},
                                                                      {"<f2", Dtype::kF16},
                                                                      {"<u4", Dtype::kU32},
                                                                      {"<i4", Dtype::kI32},
                                                                      {"<f4", Dtype::kF32},
                                                                      {"<u8", Dtype::kU64},
                                                                      {"<i8", Dtype::kI64},
                                                                      {"<f8", Dtype::kF64}}};

/// The header's text, and where the data begin.
std::string_view header_of(std::span<const uint8_t> file, size_t& data_begin) {
  constexpr std::array<uint8_t, 6> kMagic{0x93, 'N', 'U', 'M', 'P', 'Y'};
  const bool is_npy = file.size() >= 12 && std::equal(kMagic.begin(), kMagic.end(), file.begin());
  if (!is_npy) refuse_npy(concat(file.size(), " bytes that do not begin as an array"), "an .npy file");
  const int version = file[6];
  if (version < 1 || version > 3) refuse_npy(concat("version ", version), "1 to 3");
  const size_t first = version == 1 ? 10 : 12;
  size_t length = file[8] | size_t{file[9]} << 8;
  if (version > 1) length |= size_t{file[10]} << 16 | size_t{file[11]} << 24;
  if (length > file.size() - first)
    refuse_npy(concat("a header of ", length, " bytes in ", file.size()), "a whole file");
  data_begin = first + length;
  return {reinterpret_cast<const char*>(&file[0]) + first, length};
}

/// The text after `'key':`, without leading spaces.
std::string_view value_of(std::string_view header, std::string_view key) {
  const std::string quoted = concat("'", key, "':");
  const size_t at = header.find(quoted);
  if (at == std::string_view::npos || header.find(quoted, at + 1) != std::string_view::npos)
    refuse_npy(concat("a header without one ", key), "descr, fortran_order and shape");
  const auto rest = header.substr(at + quoted.size());
  return rest.substr(std::min(rest.find_first_not_of(' '), rest.size()));
}

Dtype dtype_in(std::string_view header) {
  const auto rest = value_of(header, "descr");
  const size_t end = rest.empty() ? 0 : rest.find('\'', 1);
  if (rest.empty() || rest[0] != '\'' || end == std::string_view::npos)
    refuse_npy("fields with names", "a plain dtype");
  const auto name = rest.substr(1, end - 1);
  for (const auto& [known, dtype] : kDtypes)
    if (known == name) return dtype;
  refuse_npy(concat("dtype ", in_quotes(name), name.find('O') != std::string_view::npos ? ", which is a pickle" : ""),
             "little-endian numbers or bool");
}

std::vector<int64_t> shape_in(std::string_view header) {
  auto rest = value_of(header, "shape");
  const size_t end = rest.find(')');
  if (rest.empty() || rest[0] != '(' || end == std::string_view::npos)
    refuse_npy("a shape that is no tuple", "a tuple");
  std::vector<int64_t> shape;
  for (const auto& part : split(rest.substr(1, end - 1), ',')) {
    const size_t begin = std::min(part.find_first_not_of(' '), part.size());
    if (begin == part.size()) continue;
    const auto size = parse_number<int64_t>(std::string_view(part).substr(begin));
    if (!size || *size < 0) refuse_npy(concat("a size ", in_quotes(part)), "numbers from 0");
    shape.push_back(*size);
  }
  return shape;
}

}  // namespace

bool is_npy(std::span<const uint8_t> file) {
  constexpr std::array<uint8_t, 6> kMagic{0x93, 'N', 'U', 'M', 'P', 'Y'};
  return file.size() >= kMagic.size() && std::equal(kMagic.begin(), kMagic.end(), file.begin());
}

NpyArray parse_npy(std::span<const uint8_t> file) {
  size_t begin = 0;
  const auto header = header_of(file, begin);
  NpyArray array{dtype_in(header), shape_in(header), file.subspan(begin)};
  if (!value_of(header, "fortran_order").starts_with("False") && array.shape.size() > 1)
    refuse_npy("an array in Fortran's order", "row-major");
  uint64_t bytes = element_bytes(array.dtype);
  for (const int64_t size : array.shape)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
      refuse_npy("a size beyond 64 bits", "a real one");
  if (bytes != array.data.size())
    refuse_npy(concat(array.data.size(), " bytes of data, ", bytes, " by its shape"), "a whole file");
  return array;
}

std::vector<uint8_t> npy_file(const NpyArray& array) {
  const Dtype dtype = array.dtype == Dtype::kBf16 ? Dtype::kU16 : array.dtype;
  const auto known =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](const auto& entry) { return entry.second == dtype; });
  std::string shape;
  for (const int64_t size : array.shape)
    shape += concat(size, ",", shape.empty() && array.shape.size() == 1 ? "" : " ");
  std::string header = concat("{'descr': '", known->first, "', 'fortran_order': False, 'shape': (", shape, "), }");
  constexpr size_t kBegin = 10, kAlignment = 64;
  header.append(kAlignment - 1 - (kBegin + header.size()) % kAlignment, ' ');
  header += '\n';
  std::vector<uint8_t> file{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
  file.push_back(static_cast<uint8_t>(header.size()));
  file.push_back(static_cast<uint8_t>(header.size() >> 8));
  file.insert(file.end(), header.begin(), header.end());
  file.insert(file.end(), array.data.begin(), array.data.end());
  return file;
}

}  // namespace penstock::detail
