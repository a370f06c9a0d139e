// ListFields: the columns of a list as fields.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/spec.h"
#include "loader/files/field.h"
#include "loader/import/table.h"

namespace penstock::detail {

/// How a column becomes a field.
enum class ColumnUse : uint8_t {
  kGuessed,  // numbers, lists of numbers or text, whichever all of its values are
  kNumber,   // f32, NaN for an empty cell of a CSV
  kText,
  kLabels,   // whole numbers: a list, or in a text separated by spaces, commas, semicolons or bars
  kBoxes,    // a list of lists of four numbers, or a text that is one in JSON
  kMask,     // the path of a mask's PNG
  kPicture,  // the path of a second picture
};

/// One column of a list. Its type is worked out from all values, which it has to see first.
///
/// Texts of JSON are texts. In an untyped table, where all values are texts, those of a column are numbers if all of
/// them say as a number what they say as a text, so that an id keeps its zeros and digits: 007, 1e5 and more than 19
/// digits are texts, and so are whole numbers above 2^24 that would become f32 because a value is missing. Missing
/// values of numbers, which are empty or nan, are NaN.
class ListField {
 public:
  ListField(std::string column, ColumnUse use, bool is_untyped)
      : column_(std::move(column)), use_(use), is_untyped_(is_untyped) {}

  /// Throws corrupt_error `<where>: column "x" ...` for a value that does not fit to those before.
  void see(const nlohmann::json& row, const std::string& where);
  /// The type for all values seen. `boxes` is the field that labels belong to, or "".
  FieldType type(const std::string& boxes) const;
  /// Reads files of masks and pictures below `root`. With `has_sizes`, boxes are x, y, width and height.
  FieldValue value(const nlohmann::json& row, const std::string& where, const std::filesystem::path& root,
                   bool has_sizes) const;

  const std::string& column() const { return column_; }
  bool is_number() const { return use_ == ColumnUse::kNumber || (use_ == ColumnUse::kGuessed && !is_text()); }
  uint64_t missing_count() const { return missing_count_; }  // of the values seen
  ColumnUse use() const { return use_; }
  bool is_path() const { return use_ == ColumnUse::kMask || use_ == ColumnUse::kPicture; }
  /// The path in a row, checked; is_path() is required.
  std::string path(const nlohmann::json& row, const std::string& where) const;

 private:
  enum class Form : uint8_t { kUnseen, kWhole, kReal, kText, kWholes, kReals };  // the last two: lists

  bool is_text() const;
  /// Whether a cell says that a number is missing.
  bool is_missing_in(const nlohmann::json& value) const;

  std::string column_;
  ColumnUse use_;
  bool is_untyped_;
  uint64_t missing_count_ = 0;
  bool has_fraction_ = false, has_long_whole_ = false;  // a number is not whole; one is whole, and f32 would round it
  Form form_ = Form::kUnseen;
  std::vector<int64_t> shape_;  // of lists
  bool is_first_known_ = false, is_inner_known_ = false;
};

/// The value of `column` in a row: its key, or "a.b" for the key b of the object a. Throws corrupt_error `<where>: no
/// column ...` where it is not there, or null.
const nlohmann::json& cell_of(const nlohmann::json& row, const std::string& column, const std::string& where);
/// The same as a text; whole numbers become their digits. Throws corrupt_error for anything else, and for "".
std::string text_cell(const nlohmann::json& row, const std::string& column, const std::string& where);
/// A class: the same, where numbers as 2.0 are whole, too.
std::string label_cell(const nlohmann::json& row, const std::string& column, const std::string& where);

}  // namespace penstock::detail
