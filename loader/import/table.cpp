// Table: CSV and JSON lines.
#include "loader/import/table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "core/error.h"
#include "core/regular_file.h"
#include "core/strict_json.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

constexpr uint64_t kMaxListBytes = uint64_t{1} << 32;
constexpr int kMaxDepth = 16;  // of a JSON row

/// A list in memory, and where its rows begin.
class TextTable : public Table {
 public:
  uint64_t size() const override { return begins_.size(); }
  const std::vector<std::string>& columns() const override { return columns_; }
  std::string where(uint64_t index) const override {
    const auto at = static_cast<std::ptrdiff_t>(begins_[index]);
    return where_line(1 + std::count(text_.begin(), text_.begin() + at, '\n'));
  }

 protected:
  explicit TextTable(const std::filesystem::path& file) : file_(file) {
    const auto bytes = read_file(file, kMaxListBytes);
    text_.assign(bytes.begin(), bytes.end());
    const bool is_utf16 = text_.starts_with("\xFF\xFE") || text_.starts_with("\xFE\xFF") ||
                          std::string_view(text_).substr(0, 2).find('\0') != std::string_view::npos;
    if (is_utf16) throw corrupt_error(concat(file.string(), ": is UTF-16; expected UTF-8 (iconv -f UTF-16 -t UTF-8)"));
  }
  std::string where_line(int64_t line) const { return concat(file_.string(), ": line ", line); }
  /// Where the text begins after a byte order mark.
  size_t begin() const { return text_.starts_with("\xEF\xBB\xBF") ? 3 : 0; }

  std::filesystem::path file_;
  std::string text_;
  std::vector<std::string> columns_;
  std::vector<uint64_t> begins_;  // one entry per row
};

class Csv final : public TextTable {
 public:
  Csv(const std::filesystem::path& file, std::optional<char> separator)
      : TextTable(file), separator_(separator ? *separator : separator_of_names()) {
    size_t at = begin();
    int64_t line = 1;
    std::vector<std::string> cells;
    while (at < text_.size()) {
      const size_t first = at;
      const int64_t first_line = line;
      parse(at, line, cells);
      if (cells.size() == 1 && cells[0].empty()) continue;
      if (columns_.empty()) {
        columns_ = cells;
        check_columns(first_line);
      } else if (cells.size() == columns_.size()) {
        begins_.push_back(first);
      } else {
        throw corrupt_error(concat(where_line(first_line), ": ", cells.size(), " cells; expected ", columns_.size(),
                                   ", as there are columns"));
      }
    }
    if (columns_.empty()) throw corrupt_error(concat(file.string(), ": is empty; expected a row of column names"));
  }

  nlohmann::json row(uint64_t index) const override {
    size_t at = begins_[index];
    int64_t line = 0;
    std::vector<std::string> cells;
    parse(at, line, cells);
    nlohmann::json row;
    for (size_t i = 0; i < columns_.size(); ++i) row[columns_[i]] = std::move(cells[i]);
    return row;
  }

  bool is_untyped() const override { return true; }

 private:
  char separator_of_names() const {
    const std::string_view names = std::string_view(text_).substr(0, text_.find('\n'));
    for (const char separator : {',', '\t', ';'})
      if (names.find(separator) != std::string_view::npos) return separator;
    return ',';
  }

  void check_columns(int64_t line) const {
    std::set<std::string> seen;
    for (const auto& column : columns_)
      if (!seen.insert(column).second)
        throw corrupt_error(
            concat(where_line(line), ": column ", in_quotes(column), " is there twice; expected each name once"));
  }

  /// The cells of the row that begins at `at`, which goes on to the next row, as `line` does.
  void parse(size_t& at, int64_t& line, std::vector<std::string>& cells) const {
    cells.assign(1, {});
    bool is_quoted = false, was_quoted = false;
    const int64_t first_line = line;
    for (; at < text_.size(); ++at) {
      const char c = text_[at];
      if (c == '\n') ++line;
      if (is_quoted) {
        if (c != '"') {
          cells.back() += c;
        } else if (at + 1 < text_.size() && text_[at + 1] == '"') {
          cells.back() += text_[++at];
        } else {
          is_quoted = false;
          was_quoted = true;
        }
      } else if (c == separator_) {
        cells.emplace_back();
        was_quoted = false;
      } else if (c == '\n') {
        ++at;
        return;
      } else if (c == '\r' && (at + 1 == text_.size() || text_[at + 1] == '\n')) {
        continue;
      } else if (c == '"' && cells.back().empty() && !was_quoted) {
        is_quoted = true;
      } else if (was_quoted) {
        throw corrupt_error(concat(where_line(line), ": text after the closing quote of cell ", cells.size(),
                                   "; expected the separator, or two quotes for one"));
      } else {
        cells.back() += c;
      }
    }
    if (is_quoted)
      throw corrupt_error(concat(where_line(first_line), ": cell ", cells.size(),
                                 " has an opening quote and no closing one; expected both"));
  }

  const char separator_;
};

class JsonLines final : public TextTable {
 public:
  explicit JsonLines(const std::filesystem::path& file) : TextTable(file) {
    for (size_t at = begin(); at < text_.size(); at = end_of(at) + 1)
      if (line_at(at).find_first_not_of(" \t\r") != std::string_view::npos) begins_.push_back(at);
    if (begins_.empty()) return;
    const auto first = JsonLines::row(0);
    for (const auto& [key, value] : first.items()) columns_.push_back(key);
  }

  nlohmann::json row(uint64_t index) const override {
    try {
      auto row = parse_strict_json(line_at(begins_[index]), "", kMaxDepth);
      if (row.is_object()) return row;
      throw corrupt_error(concat(": ", shortened(row.dump()), "; expected a JSON object"));
    } catch (const Error& error) {
      throw Error(error.kind(), concat(where(index), error.what()));
    }
  }

  bool is_untyped() const override { return false; }

 private:
  size_t end_of(size_t at) const { return std::min(text_.find('\n', at), text_.size()); }
  std::string_view line_at(size_t at) const { return std::string_view(text_).substr(at, end_of(at) - at); }
};

}  // namespace

std::unique_ptr<const Table> open_csv(const std::filesystem::path& file, std::optional<char> separator) {
  return std::make_unique<Csv>(file, separator);
}

std::unique_ptr<const Table> open_json_lines(const std::filesystem::path& file) {
  return std::make_unique<JsonLines>(file);
}

}  // namespace penstock::detail
