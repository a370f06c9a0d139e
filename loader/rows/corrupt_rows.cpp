// CorruptRows: one line per sample, written at once.
#include "loader/rows/corrupt_rows.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_text.h"

namespace penstock::detail {
namespace {

bool has_line(int file, const std::string& line) {
  std::string text;
  char buffer[65536];
  for (ssize_t count = 0; (count = pread(file, buffer, sizeof buffer, static_cast<off_t>(text.size()))) > 0;)
    text.append(buffer, static_cast<size_t>(count));
  return ("\n" + text).find("\n" + line) != std::string::npos;
}

/// Ranks of one run write to the same file: under its lock, so that a sample that several of them meet, or a run that
/// is resumed, has one line. Where a file system has no locks it may have one line per rank.
void append(const std::filesystem::path& path, const std::string& line) {
  const char* const expected = "expected a file that can be written, for the record of corrupt samples";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) throw errno_error(path.string(), expected);
  flock(file, LOCK_EX);  // which close() gives back
  const bool is_there = has_line(file, line);
  const auto written = is_there ? ssize_t{0} : write(file, line.data(), line.size());
  const bool is_whole = is_there || written == static_cast<ssize_t>(line.size());
  const Error failure = is_whole ? io_error("") : errno_error(path.string(), expected);
  close(file);
  if (!is_whole) throw failure;
}

}  // namespace

void CorruptRows::add_sample(const Dataset& dataset, uint64_t index, const std::string& error) {
  if (quarantine_.empty()) return;
  const Sample sample = dataset.at(index);  // before the lock, because a shard may have to be waited for
  const MutexLock lock(mutex_);
  if (!samples_.insert(index).second) return;
  nlohmann::ordered_json json{
      {"split", dataset.manifest().split}, {"id", sample.id}, {"index", index}, {"label", sample.label}};
  for (const auto& part : dataset.parts())  // of joined data sets, which may have the same ids
    if (dataset.parts().size() > 1 && index >= part.begin && index < part.end) json["data"] = part.name();
  if (!sample.path.empty()) json["path"] = std::string(sample.path);
  json["error"] = error;
  append(quarantine_, json_text(json) + "\n");
}

void CorruptRows::add_row(int64_t epoch, int64_t batch, int64_t row) {
  const MutexLock lock(mutex_);
  rows_.emplace(epoch, batch, row);
  has_rows_.store(true, std::memory_order_release);
}

int64_t CorruptRows::take(int64_t epoch, int64_t batch) {
  if (!has_rows_.load(std::memory_order_acquire)) return 0;
  const MutexLock lock(mutex_);
  const auto begin = rows_.lower_bound({epoch, batch, 0}), end = rows_.lower_bound({epoch, batch + 1, 0});
  const auto count = std::distance(begin, end);
  rows_.erase(rows_.begin(), end);
  if (rows_.empty()) has_rows_.store(false, std::memory_order_release);
  return count;
}

}  // namespace penstock::detail
