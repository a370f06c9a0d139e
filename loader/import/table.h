// Table: a list of samples, row by row, as sources read it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace penstock::detail {

/// Memory: the file, and 8 bytes per row. Errors: io_error, corrupt_error, which name file and line.
/// Thread-safety: immutable after construction.
class Table {
 public:
  virtual ~Table() = default;
  virtual uint64_t size() const = 0;
  /// The names of the columns; of JSON lines, the keys of the first row.
  virtual const std::vector<std::string>& columns() const = 0;
  /// An object from column to value.
  virtual nlohmann::json row(uint64_t index) const = 0;
  /// Whether every value is a text, as in a CSV file, so that only its looks say what it is.
  virtual bool is_untyped() const = 0;
  /// "list.csv: line 3".
  virtual std::string where(uint64_t index) const = 0;
};

/// RFC 4180, UTF-8, with a row of column names; a byte order mark and LF for CRLF are allowed, empty lines are passed
/// over. All rows are checked at once: each has as many cells as there are columns. Without `separator` it is a comma,
/// or where the column names have none, a tab or a semicolon.
std::unique_ptr<const Table> open_csv(const std::filesystem::path& file, std::optional<char> separator);

/// A JSON object per line; empty lines are passed over. A row is parsed when it is asked for.
std::unique_ptr<const Table> open_json_lines(const std::filesystem::path& file);

}  // namespace penstock::detail
