// ProgressLine: rate and time left, from the samples that this run has packed; shards that an interrupted run left cost
// no time and do not count.
#include "tools/shardprep/progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "core/number_text.h"
#include "tools/cli.h"

namespace penstock {
namespace {

constexpr double kLogEverySeconds = 5;

std::string duration_text(double seconds) {
  if (seconds < 60) return printed("%.0f s", seconds);
  return printed("%d:%02d min", static_cast<int>(seconds / 60), static_cast<int>(seconds) % 60);
}

}  // namespace

ProgressLine::ProgressLine(std::string name, bool is_quiet)
    : name_(std::move(name)), is_quiet_(is_quiet), is_terminal_(isatty(STDERR_FILENO) == 1) {}

void ProgressLine::show(const PackProgress& progress) {
  if (is_quiet_ || progress.seconds <= 0) return;
  if (!is_terminal_ && progress.seconds - last_shown_s_ < kLogEverySeconds) return;
  last_shown_s_ = progress.seconds;
  const double rate = static_cast<double>(progress.done_count - progress.reused_count) / progress.seconds;
  const auto left = static_cast<double>(progress.total_count - progress.done_count);
  const std::string line = name_ + ": " + grouped(progress.done_count) + " of " + grouped(progress.total_count) +
                           " samples, " + grouped(static_cast<uint64_t>(rate)) + "/s, " +
                           (rate > 0 ? duration_text(left / rate) + " left" : "");
  std::fprintf(stderr, is_terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
  is_line_open_ = is_terminal_;
}

void ProgressLine::say(const std::string& message) {
  finish();
  std::fprintf(stderr, "%s\n", one_line(message).c_str());
}

void ProgressLine::finish() {
  if (is_line_open_) std::fputs("\r\033[K", stderr);
  is_line_open_ = false;
}

}  // namespace penstock
