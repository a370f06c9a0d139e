// ListFields: what type a column has, and the bytes of its values.
#include "loader/sources/lists/list_fields.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/bytes.h"
#include "core/error.h"
#include "core/number.h"
#include "core/strict_json.h"
#include "core/text.h"
#include "loader/sources/class_list.h"
#include "loader/sources/picture_files.h"

namespace penstock::detail {
namespace {

using Json = nlohmann::json;

/// Numbers, and the shape in which they came.
struct Numbers {
  std::vector<double> values;
  std::vector<int64_t> wholes;  // the same, where all are whole
  std::vector<int64_t> shape;   // empty: one number
  bool is_whole = true;

  void add(double value) {
    is_whole = false;
    values.push_back(value);
    wholes.push_back(0);
  }
  void add(int64_t value) {
    values.push_back(static_cast<double>(value));
    wholes.push_back(value);
  }
};

Error wrong_cell(const std::string& where, const std::string& column, const Json& value, std::string_view expected) {
  return corrupt_error(concat(where, ": column ", in_quotes(column), " is ",
                              shortened(value.dump(-1, ' ', false, Json::error_handler_t::replace)), "; expected ",
                              expected));
}

/// Whether `text` is a finite number, which is added.
bool add_text(std::string_view text, Numbers& numbers) {
  if (const auto whole = parse_number<int64_t>(text)) {
    numbers.add(*whole);
    return true;
  }
  const auto real = parse_number<double>(text);
  if (!real || !std::isfinite(*real)) return false;
  numbers.add(*real);
  return true;
}

/// Adds the numbers in `value`, a number or lists of lists of them of equal lengths. False: it is something else.
bool add_json(const Json& value, size_t depth, Numbers& numbers) {
  if (value.is_array()) {
    const auto count = static_cast<int64_t>(value.size());
    if (numbers.shape.size() == depth)
      numbers.shape.push_back(count);
    else if (numbers.shape[depth] != count)
      return false;
    return std::all_of(value.begin(), value.end(),
                       [&](const Json& item) { return add_json(item, depth + 1, numbers); });
  }
  if (depth != numbers.shape.size()) return false;
  if (value.is_boolean()) return numbers.add(int64_t{value.get<bool>()}), true;
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return false;
  if (value.is_number_integer()) return numbers.add(value.get<int64_t>()), true;
  if (!value.is_number_float()) return false;
  return numbers.add(value.get<double>()), true;
}

/// Whether a text that add_text() takes is told by its number: not so 007, 1e5 as a hash has it and no program writes,
/// and digits that are too many for a whole number.
bool is_told_by_number(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  const std::string_view digits = text.substr(is_negative ? 1 : 0);
  const size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  if (end > 1 && digits[0] == '0') return false;
  if (end == digits.size()) return parse_number<int64_t>(text).has_value();
  const bool is_hash = (digits[end] == 'e' || digits[end] == 'E') && end + 1 < digits.size() &&
                       digits[end + 1] != '-' && digits[end + 1] != '+';
  return !is_hash || is_negative;
}

bool is_whole(double number) { return number == std::floor(number); }

/// The numbers that a cell is; nothing for text.
std::optional<Numbers> numbers_in(const Json& value) {
  Numbers numbers;
  const bool is_it =
      value.is_string() ? add_text(value.get_ref<const std::string&>(), numbers) : add_json(value, 0, numbers);
  return is_it ? std::optional(std::move(numbers)) : std::nullopt;
}

/// The list that a text is in JSON's form, as a cell of a CSV may be; every other value as it is.
Json list_in(const Json& value) {
  constexpr int kMostDepth = 3;
  if (!value.is_string() || !value.get_ref<const std::string&>().starts_with('[')) return value;
  try {
    return parse_strict_json(value.get_ref<const std::string&>(), "", kMostDepth);
  } catch (const Error&) {
    return value;  // which is no list, as the message will say
  }
}

/// A list of whole numbers: one of JSON, or a text with separators.
std::optional<Numbers> labels_in(const Json& cell) {
  const Json value = list_in(cell);
  if (!value.is_string()) {
    auto numbers = numbers_in(value.is_number() ? Json::array({value}) : value);
    return numbers && numbers->is_whole && numbers->shape.size() == 1 ? std::move(numbers) : std::nullopt;
  }
  Numbers numbers;
  const std::string& text = value.get_ref<const std::string&>();
  for (size_t at = 0; at < text.size();) {
    const size_t begin = text.find_first_not_of(" ,;|", at);
    if (begin == std::string::npos) break;
    at = std::min(text.find_first_of(" ,;|", begin), text.size());
    if (!add_text(std::string_view(text).substr(begin, at - begin), numbers) || !numbers.is_whole) return {};
  }
  return numbers;
}

FieldValue bytes_of(const Numbers& numbers, Dtype dtype) {
  FieldValue bytes;
  for (size_t i = 0; i < numbers.values.size(); ++i) {
    if (dtype == Dtype::kI64)
      append_bytes(bytes, numbers.wholes[i]);
    else
      append_bytes(bytes, static_cast<float>(numbers.values[i]));
  }
  return bytes;
}

/// Boxes as x0, y0, x1, y1.
FieldValue box_bytes(const Numbers& numbers, bool has_sizes) {
  FieldValue bytes;
  for (size_t i = 0; i + 4 <= numbers.values.size(); i += 4) {
    const double* box = &numbers.values[i];
    append_bytes(bytes, static_cast<float>(box[0]));
    append_bytes(bytes, static_cast<float>(box[1]));
    append_bytes(bytes, static_cast<float>(has_sizes ? box[0] + box[2] : box[2]));
    append_bytes(bytes, static_cast<float>(has_sizes ? box[1] + box[3] : box[3]));
  }
  return bytes;
}

/// Whether f32 holds what bytes_of() and box_bytes() have made of numbers.
bool is_finite_f32(const FieldValue& bytes) {
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(float));
  return std::all_of(numbers.begin(), numbers.end(), [](float number) { return std::isfinite(number); });
}

/// The field that a column with names of files is: "depth" for Hugging Face's "depth_file_name".
std::string file_field(const std::string& column) {
  constexpr std::string_view kEnd = "_file_name";
  return column.size() > kEnd.size() && column.ends_with(kEnd) ? column.substr(0, column.size() - kEnd.size()) : column;
}

}  // namespace

const Json& cell_of(const Json& row, const std::string& column, const std::string& where) {
  const Json* found = nullptr;
  if (const auto whole = row.find(column); whole != row.end()) {
    found = &*whole;
  } else if (const size_t dot = column.find('.'); dot != std::string::npos) {
    const auto outer = row.find(column.substr(0, dot));
    if (outer != row.end() && outer->is_object()) return cell_of(*outer, column.substr(dot + 1), where);
  }
  if (found == nullptr || found->is_null())
    throw corrupt_error(concat(where, ": no value in column ", in_quotes(column), "; expected one in every row"));
  return *found;
}

std::string text_cell(const Json& row, const std::string& column, const std::string& where) {
  const Json& value = cell_of(row, column, where);
  if (value.is_number_integer()) return value.dump();
  if (!value.is_string() || value.get_ref<const std::string&>().empty())
    throw wrong_cell(where, column, value, "a text");
  return value.get<std::string>();
}

std::string label_cell(const Json& row, const std::string& column, const std::string& where) {
  const Json& value = cell_of(row, column, where);
  const bool is_label =
      value.is_number_float() && is_whole(value.get<double>()) && std::abs(value.get<double>()) < 1e15;
  return is_label ? std::to_string(static_cast<int64_t>(value.get<double>())) : text_cell(row, column, where);
}

std::string ListField::path(const Json& row, const std::string& where) const {
  const std::string path = text_cell(row, column_, where);
  if (auto plain = plain_path(path)) return *std::move(plain);
  throw wrong_cell(where, column_, path, "a path below the list's folder");
}

bool ListField::is_missing_in(const Json& value) const {
  return is_untyped_ && value.is_string() && is_missing(value.get_ref<const std::string&>());
}

bool ListField::is_text() const {
  if (form_ == Form::kText || form_ == Form::kUnseen) return true;
  const bool is_real = form_ == Form::kReal || missing_count_ > 0;
  return is_untyped_ && is_real && has_long_whole_ && !has_fraction_;
}

void ListField::see(const Json& row, const std::string& where) {
  if (use_ != ColumnUse::kGuessed && !(use_ == ColumnUse::kNumber && is_untyped_)) return;
  const Json& value = cell_of(row, column_, where);
  if (is_missing_in(value)) return void(++missing_count_);
  if (use_ == ColumnUse::kNumber) return;
  auto numbers = numbers_in(value);
  const bool is_text = value.is_string() && !(is_untyped_ && is_told_by_number(value.get_ref<const std::string&>()));
  if (is_text) numbers.reset();
  if (!numbers) {
    if (!value.is_string())
      throw wrong_cell(where, column_, value,
                       "a number, a text, or lists of numbers in one shape (name the keys of an object as a.b)");
    const bool was_list = form_ == Form::kWholes || form_ == Form::kReals;
    if (was_list) throw wrong_cell(where, column_, value, "a list of numbers, as in the rows before");
    form_ = Form::kText;
    return;
  }
  const bool is_list = !numbers->shape.empty(), was_list = form_ == Form::kWholes || form_ == Form::kReals;
  if (form_ != Form::kUnseen && is_list != was_list)
    throw wrong_cell(where, column_, value,
                     was_list ? "a list of numbers, as in the rows before" : "no list, as in the rows before");
  if (form_ == Form::kText) return;  // a number among texts
  const bool has_digits_alone =
      value.is_string() && value.get_ref<const std::string&>().find_first_of("eE") == std::string::npos;
  for (const double number : numbers->values) {
    has_fraction_ |= !is_whole(number);
    has_long_whole_ |= has_digits_alone && is_whole(number) && number != static_cast<float>(number);
  }
  const bool is_whole =
      numbers->is_whole && (form_ == Form::kUnseen || form_ == Form::kWhole || form_ == Form::kWholes);
  form_ = is_list ? (is_whole ? Form::kWholes : Form::kReals) : (is_whole ? Form::kWhole : Form::kReal);
  if (!is_list) return;
  std::vector<int64_t> shape = numbers->shape;
  if (!is_first_known_) shape_.assign(1, shape[0]);
  is_first_known_ = true;
  if (shape_[0] != shape[0]) shape_[0] = FieldType::kVariable;
  if (numbers->values.empty()) return;  // it does not say what its items would be
  const std::vector<int64_t> inner(shape.begin() + 1, shape.end());
  if (!is_inner_known_) shape_.insert(shape_.end(), inner.begin(), inner.end());
  is_inner_known_ = true;
  if (!std::equal(inner.begin(), inner.end(), shape_.begin() + 1, shape_.end()))
    throw wrong_cell(where, column_, value, "lists of the same lengths inside as in the rows before");
}

FieldType ListField::type(const std::string& boxes) const {
  using enum ColumnUse;
  const std::vector<int64_t> variable{FieldType::kVariable};
  switch (use_) {
    case kNumber:
      return {.name = column_};
    case kText:
      return {.name = column_, .kind = FieldKind::kText, .dtype = Dtype::kU8, .shape = variable};
    case kLabels:
      return {.name = column_, .kind = FieldKind::kLabels, .dtype = Dtype::kI64, .shape = variable, .of = boxes};
    case kBoxes:
      return {.name = column_, .kind = FieldKind::kBoxes, .shape = {FieldType::kVariable, 4}};
    case kMask:
      return {
          .name = file_field(column_), .kind = FieldKind::kMask, .dtype = Dtype::kU8, .shape = variable, .fill = 255};
    case kPicture:
      return {.name = file_field(column_), .kind = FieldKind::kPicture, .dtype = Dtype::kU8, .shape = variable};
    case kGuessed:
      break;
  }
  if (is_text()) return {.name = column_, .kind = FieldKind::kText, .dtype = Dtype::kU8, .shape = variable};
  const bool is_whole = (form_ == Form::kWhole && missing_count_ == 0) || form_ == Form::kWholes;
  auto shape = shape_;
  if (shape == std::vector<int64_t>{0}) shape = variable;
  return {.name = column_, .dtype = is_whole ? Dtype::kI64 : Dtype::kF32, .shape = shape};
}

FieldValue ListField::value(const Json& row, const std::string& where, const std::filesystem::path& root,
                            bool has_sizes) const {
  if (use_ == ColumnUse::kMask) return read_mask(root / path(row, where));
  if (use_ == ColumnUse::kPicture) return read_second_picture(root / path(row, where));
  const Json& value = cell_of(row, column_, where);
  if (use_ == ColumnUse::kLabels) {
    const auto numbers = labels_in(value);
    if (!numbers) throw wrong_cell(where, column_, value, "a list of whole numbers");
    return bytes_of(*numbers, Dtype::kI64);
  }
  if (use_ == ColumnUse::kText || (use_ == ColumnUse::kGuessed && is_text())) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    return {text.begin(), text.end()};
  }
  if (use_ != ColumnUse::kBoxes && is_missing_in(value)) {
    FieldValue bytes;
    append_bytes(bytes, std::numeric_limits<float>::quiet_NaN());
    return bytes;
  }
  const auto numbers = numbers_in(use_ == ColumnUse::kBoxes ? list_in(value) : value);
  if (!numbers) throw wrong_cell(where, column_, value, use_ == ColumnUse::kBoxes ? "a list of boxes" : "a number");
  const auto checked_f32 = [&](FieldValue bytes) {
    if (is_finite_f32(bytes)) return bytes;
    throw wrong_cell(where, column_, value, "numbers of f32, up to 3.4e38");
  };
  if (use_ == ColumnUse::kBoxes) {
    const bool is_boxes = numbers->values.empty() || (numbers->shape.size() == 2 && numbers->shape[1] == 4);
    if (!is_boxes) throw wrong_cell(where, column_, value, "a list of boxes of four numbers");
    return checked_f32(box_bytes(*numbers, has_sizes));
  }
  if (use_ == ColumnUse::kNumber && !numbers->shape.empty()) throw wrong_cell(where, column_, value, "a number");
  const Dtype dtype = type("").dtype;
  auto bytes = bytes_of(*numbers, dtype);
  return dtype == Dtype::kF32 ? checked_f32(std::move(bytes)) : bytes;
}

}  // namespace penstock::detail
