// The line of an epoch that a person, or a script that reads a pipe, sees.
#include <cstdio>
#include <ostream>

#include "core/text.h"
#include "train/sinks/sink.h"

namespace penstock {
namespace {

class TerminalSink final : public Sink {
 public:
  explicit TerminalSink(std::ostream& out) : out_(out) {}
  void write(const Metrics& metrics) override {
    if (metrics.kind == Metrics::Kind::kEpoch) out_ << epoch_line(metrics) << std::endl;
  }

 private:
  std::ostream& out_;
};

}  // namespace

std::string epoch_line(const Metrics& metrics) {
  char line[160];
  std::snprintf(line, sizeof(line), "Epoch [%lld/%lld], Loss: %.4f, Dur: %.1f s, load %.1f ms, update %.1f ms",
                static_cast<long long>(metrics.epoch), static_cast<long long>(metrics.epoch_count), metrics.loss,
                metrics.seconds, metrics.load_ms, metrics.update_ms);
  return concat(line, metrics.is_emulated ? " [emulated]" : "");
}

std::unique_ptr<Sink> make_terminal_sink(std::ostream& out) { return std::make_unique<TerminalSink>(out); }

}  // namespace penstock
