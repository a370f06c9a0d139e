// json_of_value(): numbers of every dtype, in their shape.
#include "loader/export/field_text.h"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

using Json = nlohmann::json;

template <class Number>
Json json_at(const uint8_t* at) {
  Number number;
  std::memcpy(&number, at, sizeof number);
  return number;
}

Json number_at(Dtype dtype, const uint8_t* at) {
  switch (dtype) {
    case Dtype::kU8:
      return json_at<uint8_t>(at);
    case Dtype::kBool:
      return *at != 0;
    case Dtype::kI8:
      return json_at<int8_t>(at);
    case Dtype::kF16:
    case Dtype::kBf16:
      return number_reader(dtype)(at);
    case Dtype::kI16:
      return json_at<int16_t>(at);
    case Dtype::kU16:
      return json_at<uint16_t>(at);
    case Dtype::kF32:
      return json_at<float>(at);
    case Dtype::kI32:
      return json_at<int32_t>(at);
    case Dtype::kU32:
      return json_at<uint32_t>(at);
    case Dtype::kI64:
      return json_at<int64_t>(at);
    case Dtype::kU64:
      return json_at<uint64_t>(at);
    case Dtype::kF64:
      return json_at<double>(at);
  }
  return nullptr;
}

/// The numbers from `at` on in the sizes from `shape[depth]` on; `at` goes on to what follows them.
Json list_at(const FieldType& type, const std::vector<int64_t>& shape, size_t depth, const uint8_t*& at) {
  if (depth == shape.size()) {
    Json number = number_at(type.dtype, at);
    if (number.is_number_float() && std::isnan(number.get<double>()))
      number = nullptr;  // as others write what is missing
    if (number.is_number_float() && !std::isfinite(number.get<double>()))
      throw config_error(concat("field ", in_quotes(type.name), ": is ", number.get<double>(),
                                ", which JSON cannot hold; expected --to webdataset"));
    at += element_bytes(type.dtype);
    return number;
  }
  Json list = Json::array();
  for (int64_t i = 0; i < shape[depth]; ++i) list.push_back(list_at(type, shape, depth + 1, at));
  return list;
}

}  // namespace

Json json_of_value(const FieldType& type, FieldBytes bytes) {
  if (type.kind == FieldKind::kText) return std::string(bytes.begin(), bytes.end());
  auto shape = type.shape;
  if (type.is_variable()) shape[0] = static_cast<int64_t>(bytes.size() / type.entry_bytes());
  const uint8_t* at = bytes.data();
  return list_at(type, shape, 0, at);
}

}  // namespace penstock::detail
