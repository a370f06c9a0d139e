// CorruptRows: one line per sample, written at once.
#include "loader/rows/corrupt_rows.h"

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_text.h"

namespace penstock::detail {
namespace {

/// O_APPEND: ranks of one run may write to the same file, each a line at a time.
void append(const std::filesystem::path& path, const std::string& line) {
  const char* const expected = "expected a file that can be written, for the record of corrupt samples";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) throw errno_error(path.string(), expected);
  const auto written = write(file, line.data(), line.size());
  const bool is_whole = written == static_cast<ssize_t>(line.size());
  const Error failure = is_whole ? io_error("") : errno_error(path.string(), expected);
  close(file);
  if (!is_whole) throw failure;
}

}  // namespace

void CorruptRows::add_sample(const Dataset& dataset, uint64_t index, const std::string& error) {
  if (quarantine_.empty()) return;
  const std::lock_guard lock(mutex_);
  if (!samples_.insert(index).second) return;
  const Sample sample = dataset.at(index);
  nlohmann::ordered_json json{
      {"split", dataset.manifest().split}, {"id", sample.id}, {"index", index}, {"label", sample.label}};
  if (!sample.path.empty()) json["path"] = std::string(sample.path);
  json["error"] = error;
  append(quarantine_, json_text(json) + "\n");
}

void CorruptRows::add_row(int64_t epoch, int64_t batch, int64_t row) {
  const std::lock_guard lock(mutex_);
  rows_.emplace(epoch, batch, row);
  has_rows_.store(true, std::memory_order_release);
}

int64_t CorruptRows::take(int64_t epoch, int64_t batch) {
  if (!has_rows_.load(std::memory_order_acquire)) return 0;
  const std::lock_guard lock(mutex_);
  const auto begin = rows_.lower_bound({epoch, batch, 0}), end = rows_.lower_bound({epoch, batch + 1, 0});
  const auto count = std::distance(begin, end);
  rows_.erase(rows_.begin(), end);
  if (rows_.empty()) has_rows_.store(false, std::memory_order_release);
  return count;
}

}  // namespace penstock::detail
