// ProgressBar: the text of the line, and when it is shown.
#include "train/loop/progress.h"

#include <algorithm>

#include "core/clock.h"
#include "core/number_text.h"
#include "core/text.h"

namespace penstock {
namespace {

constexpr double kInterval_ms = 100;
constexpr int kBarWidth = 20;  // characters

}  // namespace

bool ProgressBar::is_due() const { return is_on_ && ms_since(shown_ns_) >= kInterval_ms; }

void ProgressBar::show(const State& state) {
  if (!is_due()) return;
  out_ << '\r' << bar_line(state) << "\x1b[K" << std::flush;
  is_shown_ = true;
  shown_ns_ = now_ns();
}

void ProgressBar::clear() {
  if (is_shown_) out_ << "\r\x1b[K" << std::flush;
  is_shown_ = false;
}

std::optional<double> running_loss(const LossSum& read, const LossSum& own, int64_t since_count) {
  if (own.sample_count == 0) {
    if (read.sample_count == 0) return std::nullopt;
    return read.loss / static_cast<double>(read.sample_count);
  }
  const double since = own.loss * static_cast<double>(since_count) / static_cast<double>(own.sample_count);
  return (read.loss + since) / static_cast<double>(read.sample_count + since_count);
}

std::string bar_line(const ProgressBar::State& state) {
  const double done =
      state.step_count > 0 ? static_cast<double>(state.step) / static_cast<double>(state.step_count) : 1;
  const int filled = static_cast<int>(std::clamp(done, 0.0, 1.0) * kBarWidth);
  const std::string bar = std::string(filled, '#') + std::string(kBarWidth - filled, '.');
  const auto left = static_cast<long long>(state.seconds_left + 0.5);
  return concat("[", bar, "] ", state.epoch, "/", state.epoch_count, " ", state.step, "/", state.step_count, "  ",
                state.loss ? printed("loss %.4f  ", *state.loss) : "",
                printed("%.0f images/s  load %.0f %%  %lld:%02lld left", state.images_per_second,
                        100 * state.load_share, left / 60, left % 60));
}

}  // namespace penstock
