// ListFields: the columns of a list as fields.
#pragma once

#include <memory>
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
  kNumber,   // f32
  kText,
  kLabels,   // whole numbers: a list, or in a text separated by spaces, commas, semicolons or bars
  kBoxes,    // a list of lists of four numbers, or a text that is one in JSON
  kMask,     // the path of a mask's PNG
  kPicture,  // the path of a second picture
};

/// One column of a list. Its type is worked out from all values, which it has to see first.
class ListField {
 public:
  ListField(std::string column, ColumnUse use) : column_(std::move(column)), use_(use) {}

  /// Throws corrupt_error `<where>: column "x" ...` for a value that does not fit to those before.
  void see(const nlohmann::json& row, const std::string& where);
  /// The type for all values seen. `boxes` is the field that labels belong to, or "".
  FieldType type(const std::string& boxes) const;
  /// Reads files of masks and pictures below `root`. With `has_sizes`, boxes are x, y, width and height.
  FieldValue value(const nlohmann::json& row, const std::string& where, const std::filesystem::path& root,
                   bool has_sizes) const;

  const std::string& column() const { return column_; }
  ColumnUse use() const { return use_; }
  bool is_path() const { return use_ == ColumnUse::kMask || use_ == ColumnUse::kPicture; }
  /// The path in a row, checked; is_path() is required.
  std::string path(const nlohmann::json& row, const std::string& where) const;

 private:
  enum class Form : uint8_t { kUnseen, kWhole, kReal, kText, kWholes, kReals };  // the last two: lists

  std::string column_;
  ColumnUse use_;
  Form form_ = Form::kUnseen;
  std::vector<int64_t> shape_;  // of lists
  bool is_first_known_ = false, is_inner_known_ = false;
};

/// The value of `column` in a row: its key, or "a.b" for the key b of the object a. Throws corrupt_error `<where>: no
/// column ...` where it is not there, or null.
const nlohmann::json& cell_of(const nlohmann::json& row, const std::string& column, const std::string& where);
/// The same as a text; whole numbers become their digits. Throws corrupt_error for anything else, and for "".
std::string text_cell(const nlohmann::json& row, const std::string& column, const std::string& where);

}  // namespace penstock::detail
