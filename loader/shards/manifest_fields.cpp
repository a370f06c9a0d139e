// Fields of a manifest: a JSON object by name.
#include "loader/shards/manifest_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

using nlohmann::json;

constexpr size_t kMaxFields = 1000;

/// get<>() would cut off the fraction of a number, and whatever Number does not hold.
template <class Number>
Number whole_of(const json& value, const std::string& where) {
  if (value.is_number_unsigned() && std::in_range<Number>(value.get<uint64_t>()))
    return static_cast<Number>(value.get<uint64_t>());
  if (value.is_number_integer() && !value.is_number_unsigned() && std::in_range<Number>(value.get<int64_t>()))
    return static_cast<Number>(value.get<int64_t>());
  throw corrupt_error(
      concat(where, ": has ", shortened(value.dump()), "; expected a whole number of ", 8 * sizeof(Number), " bits"));
}

FieldType field_of_json(const std::string& name, const json& entry, const std::string& where) {
  static const std::set<std::string> kKeys{"kind", "dtype", "shape", "of", "fill", "swapped", "names", "most"};
  for (const auto& [key, value] : entry.items())
    if (!kKeys.contains(key))
      throw corrupt_error(concat(where, ": unknown key ", in_quotes(key), "; docs/FORMAT.md lists them"));
  const auto text = [&](const char* key) { return entry.at(key).get<std::string>(); };
  FieldType type{.name = name};
  const auto kind = field_kind_of_name(text("kind"));
  if (!kind) throw corrupt_error(concat(where, ": kind is ", in_quotes(text("kind")), "; docs/FORMAT.md lists them"));
  const auto dtype = dtype_of_name(text("dtype"));
  if (!dtype)
    throw corrupt_error(concat(where, ": dtype is ", in_quotes(text("dtype")), "; docs/FORMAT.md lists them"));
  type.kind = *kind;
  type.dtype = *dtype;
  for (const auto& size : entry.at("shape"))
    type.shape.push_back(size.is_null() ? FieldType::kVariable : whole_of<int64_t>(size, where));
  if (entry.contains("of")) type.of = text("of");
  if (entry.contains("fill")) type.fill = entry.at("fill").get<double>();
  if (type.is_variable()) type.most = whole_of<uint64_t>(entry.at("most"), where);
  if (entry.contains("swapped")) {
    type.swapped.emplace();
    for (const auto& pair : entry.at("swapped"))
      type.swapped->emplace_back(whole_of<int>(pair.at(0), where), whole_of<int>(pair.at(1), where));
  }
  if (entry.contains("names")) type.names = entry.at("names").get<std::vector<std::string>>();
  return type;
}

}  // namespace

std::vector<FieldType> checked_fields(std::vector<FieldType> fields, const std::string& where) {
  std::sort(fields.begin(), fields.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  if (fields.size() > kMaxFields)
    throw config_error(concat(where, ": ", fields.size(), " fields; expected at most ", kMaxFields));
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto& type = fields[i];
    check_field_type(type, where);
    if (i > 0 && fields[i - 1].name == type.name)
      throw config_error(concat(where, ": field ", in_quotes(type.name), " occurs twice; expected every name once"));
    const auto is_list_of = [&](const FieldType& other) {
      return other.name == type.of && (other.kind == FieldKind::kBoxes || other.kind == FieldKind::kKeypoints);
    };
    if (!type.of.empty() && std::none_of(fields.begin(), fields.end(), is_list_of))
      throw config_error(concat(where, ": field ", in_quotes(type.name), ": is of ", in_quotes(type.of),
                                "; expected a field of boxes or key points"));
  }
  return fields;
}

std::vector<FieldType> fields_of_json(const json& object, const std::string& where) {
  std::vector<FieldType> fields;
  try {
    for (const auto& [name, entry] : object.items())
      fields.push_back(field_of_json(name, entry, concat(where, ": fields: ", in_quotes(name))));
    return checked_fields(std::move(fields), where);
  } catch (const json::exception&) {
    throw corrupt_error(concat(where, ": fields is ", shortened(object.dump()), "; docs/FORMAT.md says what it has"));
  } catch (const Error& error) {
    throw corrupt_error(error.what());
  }
}

nlohmann::ordered_json json_of_fields(const std::vector<FieldType>& fields) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& type : fields) {
    nlohmann::ordered_json shape = nlohmann::ordered_json::array();
    for (const int64_t size : type.shape)
      size == FieldType::kVariable ? shape.push_back(nullptr) : shape.push_back(size);
    auto& entry =
        object[type.name] = {{"kind", field_kind_name(type.kind)}, {"dtype", dtype_name(type.dtype)}, {"shape", shape}};
    if (!type.of.empty()) entry["of"] = type.of;
    if (type.fill != 0) entry["fill"] = type.fill;
    if (type.swapped) entry["swapped"] = *type.swapped;
    if (!type.names.empty()) entry["names"] = type.names;
    if (type.is_variable()) entry["most"] = type.most;
  }
  return object;
}

}  // namespace penstock::detail
