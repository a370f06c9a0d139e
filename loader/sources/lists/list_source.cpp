// ListSource: rows to samples.
#include "loader/sources/lists/list_source.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "core/error.h"
#include "core/number.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/import/picture_formats.h"
#include "loader/sources/class_list.h"
#include "loader/sources/lists/list_fields.h"
#include "loader/sources/picture_files.h"
#include "loader/sources/split_names.h"

namespace penstock::detail {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// What the keys of the spec say about the columns of a table.
struct Columns {
  std::string path, label, split;  // label, split: "" for none
  std::vector<ListField> fields;
  bool has_sizes = false;
  AnnotatedOn annotated_on = AnnotatedOn::kUnknown;
  bool has_all_fields = false, has_usual_label = false;  // no key of the spec names them
};

bool has_column(const Table& table, const std::string& column) {
  const auto& columns = table.columns();
  const std::string outer = column.substr(0, column.find('.'));
  return std::any_of(columns.begin(), columns.end(), [&](const auto& name) { return name == column || name == outer; });
}

/// Whether `column` is called so, in any case and with white space around it.
bool is_called(const std::string& column, const std::string& name) {
  const auto own = trimmed(column);
  return std::equal(own.begin(), own.end(), name.begin(), name.end(),
                    [](char letter, char lower) { return std::tolower(static_cast<unsigned char>(letter)) == lower; });
}

/// The column that `key` names; of `usual` the first one that is there, if it does not.
std::string column_of(const Spec& spec, const Table& table, const std::string& key,
                      const std::vector<std::string>& usual) {
  const std::string given = spec.get(key, "");
  if (given == "none") return "";
  if (given.empty()) {
    for (const auto& name : usual)
      if (has_column(table, name)) return name;
    for (const auto& name : usual)
      for (const auto& column : table.columns())
        if (is_called(column, name)) return column;
    return "";
  }
  if (has_column(table, given)) return given;
  throw config_error(concat(spec.where(), ": ", key, " is ", in_quotes(given), "; expected one of the columns ",
                            join(table.columns())));
}

std::vector<std::string> columns_of(const Spec& spec, const Table& table, const std::string& key) {
  const std::string text = spec.get(key, "");
  if (text.empty() || text == "none") return {};
  auto names = penstock::split(text, ':');
  for (const auto& name : names)
    if (!has_column(table, name))
      throw config_error(concat(spec.where(), ": ", key, " has ", in_quotes(name), "; expected some of the columns ",
                                join(table.columns()), ", separated by ':'"));
  return names;
}

Columns read_columns(const Spec& spec, const Table& table) {
  Columns columns{.path = column_of(spec, table, "path", {"path", "file_name", "image", "filename", "file"}),
                  .label = column_of(spec, table, "label", {"label"}),
                  .split = column_of(spec, table, "split", {}),
                  .fields = {},
                  .has_all_fields = !spec.has("fields"),
                  .has_usual_label = !spec.has("label")};
  if (columns.path.empty())
    throw config_error(concat(
        spec.where(), ": no column path, file_name, image, filename or file; expected path=COLUMN, one of ",
        join(table.columns()), table.is_untyped() && table.columns().size() == 1 ? ", or another separator=" : ""));
  std::vector<std::string> used{columns.path, columns.label, columns.split};
  const auto add = [&](const std::string& key, ColumnUse use) {
    for (auto& name : columns_of(spec, table, key)) {
      const bool is_known = std::any_of(columns.fields.begin(), columns.fields.end(),
                                        [&](const ListField& field) { return field.column() == name; });
      if (is_known)
        throw config_error(
            concat(spec.where(), ": ", key, " has ", in_quotes(name), ", which another key has; expected it once"));
      used.push_back(name);
      columns.fields.emplace_back(std::move(name), use, table.is_untyped());
    }
  };
  add("number", ColumnUse::kNumber);
  add("text", ColumnUse::kText);
  add("labels", ColumnUse::kLabels);
  add("boxes", ColumnUse::kBoxes);
  add("mask", ColumnUse::kMask);
  add("picture", ColumnUse::kPicture);
  const std::string format = spec.get("box-format", "xyxy");
  if (format != "xyxy" && format != "xywh")
    throw config_error(concat(spec.where(), ": box-format is ", in_quotes(format), "; expected xyxy or xywh"));
  columns.has_sizes = format == "xywh";
  columns.annotated_on = annotated_on(spec.where(), spec.get("annotations", ""));
  if (spec.has("fields")) {
    add("fields", ColumnUse::kGuessed);
    return columns;
  }
  for (const auto& name : table.columns()) {
    const auto is_it = [&](const std::string& other) { return other == name || other.starts_with(name + "."); };
    if (std::none_of(used.begin(), used.end(), is_it))
      columns.fields.emplace_back(name, ColumnUse::kGuessed, table.is_untyped());
  }
  return columns;
}

class ListSource final : public Source {
 public:
  ListSource(const Spec& spec, ListFile list, const std::string& split, const OpenTable& open)
      : list_(std::move(list)), table_(open(list_.file)), columns_(read_columns(spec, *table_)) {
    if (!list_.of_train.empty() && !columns_.label.empty()) add_classes(*open(list_.of_train));
    find_ending();
    read_rows(split);
    const auto boxes = std::find_if(columns_.fields.begin(), columns_.fields.end(),
                                    [](const ListField& field) { return field.use() == ColumnUse::kBoxes; });
    for (const auto& field : columns_.fields) {
      types_.push_back(field.type(boxes == columns_.fields.end() ? "" : boxes->column()));
      check_field_type(types_.back(), spec.where());
    }
  }

  uint64_t size() const override { return rows_.size(); }
  std::vector<std::string> class_names() const override { return classes_.names(); }
  int64_t label(uint64_t index) const override { return classes_.label(train_count_ + rows_[index]); }
  std::vector<FieldType> fields() const override { return types_; }

  SourceSample read(uint64_t index) const override {
    const auto row = table_->row(rows_[index]);
    const std::string where = place_of(rows_[index]);
    SourceSample sample = read_picture(file_of(path_of(row, where)));
    for (const auto& field : columns_.fields)
      sample.fields.push_back(field.value(row, where, list_.root, columns_.has_sizes));
    sample.annotated = {columns_.annotated_on, side_in(row, "height"), side_in(row, "width")};
    if (sample.annotated.height == 0 || sample.annotated.width == 0) sample.annotated = {columns_.annotated_on};
    return sample;
  }

  std::string fingerprint() const override {
    Fingerprint fingerprint;
    fingerprint.add(list_.file);
    if (train_count_ > 0) fingerprint.add(list_.of_train);
    for (const uint64_t row : rows_) {
      const auto cells = table_->row(row);
      fingerprint.add(file_of(path_of(cells, "")));
      for (const auto& field : columns_.fields)
        if (field.is_path()) fingerprint.add(list_.root / field.path(cells, ""));
    }
    return fingerprint.text();
  }

  std::string where(uint64_t index) const override {
    return file_of(path_of(table_->row(rows_[index]), place_of(rows_[index]))).string();
  }

  /// An absolute path becomes one below the output, too.
  std::string path(uint64_t index) const override {
    const fs::path path = path_of(table_->row(rows_[index]), place_of(rows_[index]));
    if (!path.is_absolute()) return path.string();
    const fs::path below = path.lexically_relative(fs::absolute(list_.root));
    return plain_path(below.string()).value_or(path.relative_path().string());
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    for (const auto& field : columns_.fields)
      if (field.is_number() && field.missing_count() > 0)
        notes.push_back(concat(list_.file.string(), ": column ", in_quotes(field.column()), " has no number in ",
                               grouped(field.missing_count()), " of ", count_text(table_->size(), "row"),
                               "; they are NaN"));
    return notes;
  }

 private:
  struct Place {
    uint64_t row;
    uint32_t class_number;
  };

  fs::path file_of(const std::string& path) const { return list_.root / path; }

  /// The pixels that a column `height` or `width` says; 0 without such a column, or where it says no size.
  static int side_in(const Json& row, const char* column) {
    constexpr double kMostPixels = 65535;
    const auto found = row.find(column);
    if (found == row.end()) return 0;
    double pixels = 0;
    if (found->is_number()) pixels = found->get<double>();
    if (found->is_string()) pixels = parse_number<double>(found->get_ref<const std::string&>()).value_or(0);
    return pixels >= 1 && pixels <= kMostPixels && pixels == std::floor(pixels) ? static_cast<int>(pixels) : 0;
  }

  /// The path in a row: below the list's folder, or absolute.
  std::string path_of(const Json& row, const std::string& where) const {
    const fs::path path = text_cell(row, columns_.path, where) + ending_;
    if (const auto plain = plain_path(path.relative_path().string())) return path.root_path().string() + *plain;
    throw corrupt_error(concat(where, ": path is ", in_quotes(path.string()), "; expected a file, without '..'"));
  }

  /// A key that the first row lacks is no column, so that its values would be lost. With fields=A:B that is meant, but
  /// not of a class.
  void check_keys(const Json& row, uint64_t number) const {
    const auto& known = table_->columns();
    for (const auto& [key, value] : row.items()) {
      const bool is_lost = columns_.has_all_fields || (is_called(key, "label") && columns_.has_usual_label);
      if (is_lost && !value.is_null() && std::find(known.begin(), known.end(), key) == known.end())
        throw corrupt_error(concat(place_of(0), ": no value in column ", in_quotes(key), ", which row ", number + 1,
                                   " has; expected one in every row, or fields=A:B without it"));
    }
  }

  Error other_label(const nlohmann::json& row, uint64_t number, const std::string& path, uint64_t first) const {
    const std::string other = table_->where(first);
    return corrupt_error(concat(table_->where(number), ": ", in_quotes(path), " has ", columns_.label, " ",
                                in_quotes(label_cell(row, columns_.label, "")), ", and in ", other, " ",
                                in_quotes(label_cell(table_->row(first), columns_.label, other)),
                                "; expected one label"));
  }

  void read_rows(const std::string& split) {
    std::unordered_map<std::string, Place> places;  // of every path
    const bool is_classless = columns_.label.empty();
    for (uint64_t i = 0; i < table_->size(); ++i) {
      const auto row = table_->row(i);
      const std::string where = place_of(i);
      check_keys(row, i);
      const uint32_t class_number = is_classless ? 0 : classes_.add(label_cell(row, columns_.label, where));
      for (auto& field : columns_.fields) field.see(row, where);
      if (!is_of_split(row, where, split)) continue;
      check_files(row, where);
      const auto [seen, is_new] = places.emplace(path_of(row, where), Place{i, class_number});
      if (!is_new && seen->second.class_number != class_number)
        throw other_label(row, i, seen->first, seen->second.row);
      rows_.push_back(i);
    }
    classes_.finish(list_.file.string(), [&](uint64_t row) {
      return row < train_count_ ? concat(list_.of_train.string(), ": row ", row + 1) : place_of(row - train_count_);
    });
  }

  /// The classes of train's rows, which come before those of this list.
  void add_classes(const Table& train) {
    if (!has_column(train, columns_.label)) return;
    for (; train_count_ < train.size(); ++train_count_)
      classes_.add(label_cell(train.row(train_count_), columns_.label,
                              concat(list_.of_train.string(), ": row ", train_count_ + 1)));
  }

  /// Lists may leave out the ending that all of their files have. It is that of the first row's file, if there is
  /// one picture alone that is called so.
  void find_ending() {
    if (table_->size() == 0) return;
    const fs::path file = file_of(path_of(table_->row(0), place_of(0)));
    if (is_file(file) || !fs::is_directory(file.parent_path())) return;
    std::vector<std::string> endings;
    for (const auto& entry : fs::directory_iterator(file.parent_path()))
      if (entry.path().stem() == file.filename() && is_picture_name(entry.path()))
        endings.push_back(entry.path().extension().string());
    if (endings.size() == 1) ending_ = endings[0];
  }

  /// As Table::where(), which counts lines, but without a search through the file for every row.
  std::string place_of(uint64_t row) const { return concat(list_.file.string(), ": row ", row + 1); }

  bool is_of_split(const Json& row, const std::string& where, const std::string& split) const {
    if (columns_.split.empty()) return true;
    const std::string name = text_cell(row, columns_.split, where);
    for (const char* known : {"train", "test", "all"}) {
      const auto names = split_names(known);
      if (std::find(names.begin(), names.end(), name) != names.end()) return split == "all" || split == known;
    }
    throw corrupt_error(concat(where, ": ", columns_.split, " is ", in_quotes(name),
                               "; expected train, test, val, valid or validation"));
  }

  void check_files(const Json& row, const std::string& where) const {
    const auto check = [&](const fs::path& file) {
      if (!detail::is_file(file))
        throw io_error(concat(where, ": ", file.string(), " is not there; expected the file that the list names"));
    };
    check(file_of(path_of(row, where)));
    for (const auto& field : columns_.fields)
      if (field.is_path()) check(list_.root / field.path(row, where));
  }

  ListFile list_;
  std::unique_ptr<const Table> table_;
  Columns columns_;
  std::vector<FieldType> types_;
  std::string ending_;          // of all pictures, where the list leaves it out
  std::vector<uint64_t> rows_;  // one entry per sample
  ClassList classes_;           // of train_count_ rows of train's list, and of all rows, of every split
  uint64_t train_count_ = 0;
};

}  // namespace

std::vector<std::string> list_keys(const std::vector<std::string>& more) {
  std::vector<std::string> keys{"path",   "label", "split",      "fields", "number",  "text",
                                "labels", "boxes", "box-format", "mask",   "picture", "annotations"};
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

std::string list_help() {
  return "path=COLUMN of the picture's file (path, file_name, image, filename or file), label=COLUMN of the class, or "
         "none (label), split=COLUMN that says train or test, fields=A:B other columns to keep, or none (all): "
         "numbers, "
         "lists of numbers or text, whichever all of its values are; number=A:B, text=A:B, labels=A:B (whole "
         "numbers), boxes=A (with box-format=xyxy or xywh; in a CSV a list as JSON writes it), mask=A and picture=A "
         "(files) say what a column is; annotations=raw or upright: whether boxes and masks are in pixels of pictures "
         "as "
         "stored or as their EXIF turns them, where no size tells";
}

ListFile find_list(const Spec& spec, const fs::path& input, const std::string& split, const std::string& ending) {
  const std::string name = spec.get("file", "");
  if (input.empty())
    throw config_error(concat(spec.where(), ": no input; expected --input DIR or FILE (shardprep) or --data ",
                              spec.name(), ":DIR (train)"));
  if (fs::is_regular_file(input)) {
    if (!name.empty())
      throw config_error(concat(spec.where(), ": file is ", in_quotes(name), " with the input ", input.string(),
                                ", a file; expected one of both"));
    return {input, input.parent_path(), {}};
  }
  if (!fs::is_directory(input))
    throw io_error(concat(input.string(), ": no such folder or file; expected the input of ", spec.where()));
  if (!name.empty()) {
    if (!fs::is_regular_file(input / name))
      throw io_error(concat((input / name).string(), ": is not there; expected the file of ", spec.where()));
    return {input / name, (input / name).parent_path(), {}};
  }
  if (const auto found = split_entry(input, split, ending)) {
    const auto train = split == "test" ? split_entry(input, "train", ending) : std::nullopt;
    return {*found, input, train.value_or("")};
  }
  std::vector<fs::path> others;
  for (const auto& entry : fs::directory_iterator(input))
    if (entry.is_regular_file() && entry.path().extension() == ending) others.push_back(entry.path());
  if (others.size() == 1 && (split != "test" || spec.has("split"))) return {others[0], input, {}};
  throw io_error(concat(input.string(), ": no ", join(split_names(split), ending + ", "), ending, " for split ", split,
                        " among ", others.size(), " lists; expected one, or file=NAME"));
}

std::unique_ptr<Source> make_list_source(const Spec& spec, ListFile list, const std::string& split,
                                         const OpenTable& open) {
  return std::make_unique<ListSource>(spec, std::move(list), split, open);
}

}  // namespace penstock::detail
