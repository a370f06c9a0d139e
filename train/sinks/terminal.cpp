// terminal: prints a line per epoch, and one per record of a compressed step, for people and for scripts that read it
// from a pipe.
#include <ostream>

#include "core/number_text.h"
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
  return concat("Epoch [", metrics.epoch, "/", metrics.epoch_count, "], ",
                metrics.learns ? printed("Loss: %.4f, ", metrics.loss) : "", "Dur: ", seconds_text(metrics.seconds),
                ", load ", ms_text(metrics.load_ms), ", update ", ms_text(metrics.update_ms),
                metrics.is_emulated ? " [emulated]" : "");
}

std::string compression_line(const Metrics& metrics) {
  return concat("Epoch [", metrics.epoch, "/", metrics.epoch_count, "], step ", metrics.step,
                printed(", Loss: %.4f, compression error %.2g", metrics.loss, metrics.compression_error.value_or(0)));
}

namespace {

const Registered<SinkKind> kTerminal{
    "terminal", {}, "one line per epoch on standard output", [](const Spec&, const SinkContext& context) {
      return std::make_unique<TerminalSink>(context.terminal);
    }};

}  // namespace
}  // namespace penstock
