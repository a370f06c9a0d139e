// terminal: prints a line per epoch, and one per record of a compressed step, for people and for scripts that read it
// from a pipe.
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
    if (metrics.compression_error) out_ << compression_line(metrics) << std::endl;
  }

 private:
  std::ostream& out_;
};

}  // namespace

std::string epoch_line(const Metrics& metrics) {
  char loss[64], times[128];
  std::snprintf(loss, sizeof(loss), "Loss: %.4f, ", metrics.loss);
  std::snprintf(times, sizeof(times), "Dur: %.1f s, load %.1f ms, update %.1f ms", metrics.seconds, metrics.load_ms,
                metrics.update_ms);
  return concat("Epoch [", metrics.epoch, "/", metrics.epoch_count, "], ", metrics.learns ? loss : "", times,
                metrics.is_emulated ? " [emulated]" : "");
}

std::string compression_line(const Metrics& metrics) {
  char figures[96];
  std::snprintf(figures, sizeof(figures), "Loss: %.4f, compression error %.2g", metrics.loss,
                metrics.compression_error.value_or(0));
  return concat("Epoch [", metrics.epoch, "/", metrics.epoch_count, "], step ", metrics.step, ", ", figures);
}

namespace {

const Registered<SinkKind> kTerminal{
    "terminal", {}, "one line per epoch on standard output", [](const Spec&, const SinkContext& context) {
      return std::make_unique<TerminalSink>(context.terminal);
    }};

}  // namespace
}  // namespace penstock
