// tensorboard: writes TensorBoard event files. They are encoded by hand, because LibTorch contains a protobuf library,
// which another one would clash with.
//
// A file is a sequence of TFRecords: u64 length, masked CRC-32C of the length, the bytes, masked CRC-32C of the bytes
// (all little endian; masked: rotated right by 15 bits, plus 0xa282ead8). The bytes are an Event in protobuf's wire
// format, of which these fields are used:
//
//   Event    1 wall_time f64   2 step varint   3 file_version string   5 summary Summary   7 session_log SessionLog
//   Summary  1 value Value (repeated)          Value  1 tag string   2 simple_value f32
//   SessionLog  1 status varint; 1: START
//
// A run that goes on from step N begins with a START of step N + 1, as SummaryWriter(purge_step=N + 1) of torch does:
// TensorBoard then leaves out what earlier files of the run have from that step on.
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstring>

#include "core/bytes.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/shards/shard.h"
#include "train/sinks/log_file.h"
#include "train/sinks/sink.h"

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little);

enum class Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <class Value>
std::string fixed(Value value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string field(int number, Wire wire, const std::string& value) {
  return varint(static_cast<uint64_t>(number) << 3 | static_cast<uint64_t>(wire)) +
         (wire == Wire::kBytes ? varint(value.size()) : std::string()) + value;
}

std::string masked_crc(const std::string& bytes) {
  const uint32_t crc = crc32c(as_bytes(bytes));
  return fixed(std::rotr(crc, 15) + 0xa282ead8u);
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string value(const std::string& tag, double number) {
  return field(1, Wire::kBytes,
               field(1, Wire::kBytes, tag) + field(2, Wire::kFixed32, fixed(static_cast<float>(number))));
}

std::string summary_of(const Metrics& metrics) {
  const std::string group = metrics.kind == Metrics::Kind::kStep ? "step/" : "epoch/";
  std::string values = value(group + "loss", metrics.loss) +
                       (metrics.accuracy ? value(group + "accuracy", *metrics.accuracy) : std::string()) +
                       value(group + "learning_rate", metrics.learning_rate) +
                       value(group + "images_per_second", metrics.images_per_second) +
                       value(group + "load_ms", metrics.load_ms) + value(group + "update_ms", metrics.update_ms);
  for (int phase = 0; phase < kPhaseCount; ++phase)
    values += value(concat(group, "phase_ms/", kPhaseNames[phase]), metrics.a_step[Phase{phase}]);
  values += value(group + "hidden_communication_ms", metrics.a_step.hidden_communication()) +
            value(group + "ready_share", metrics.ready_share) +
            value(group + "loader_idle_share", metrics.loader_idle_share);
  if (metrics.link_bytes_per_second) values += value(group + "link_bytes_per_second", *metrics.link_bytes_per_second);
  if (metrics.link_stall_ms) values += value(group + "link_stall_ms", *metrics.link_stall_ms);
  if (metrics.test_loss) values += value(group + "test_loss", *metrics.test_loss);
  if (metrics.test_accuracy) values += value(group + "test_accuracy", *metrics.test_accuracy);
  for (const auto& [key, score] : metrics.test_scores) values += value(concat(group, "test_", key), score);
  if (metrics.compression_error) values += value(group + "compression_error", *metrics.compression_error);
  if (metrics.gpu_busy_percent) values += value(group + "gpu_busy_percent", *metrics.gpu_busy_percent);
  if (metrics.gpu_memory_bytes)
    values += value(group + "gpu_memory_bytes", static_cast<double>(*metrics.gpu_memory_bytes));
  return values;
}

class TensorBoardSink final : public Sink {
 public:
  explicit TensorBoardSink(const SinkContext& context)
      : file_(context.folder / file_name(),
              record(field(1, Wire::kFixed64, fixed(unix_seconds())) + field(3, Wire::kBytes, "brain.Event:2"))) {
    if (context.resumed_step < 0) return;
    const std::string start = field(1, Wire::kVarint, varint(1));
    append(context.resumed_step + 1, field(7, Wire::kBytes, start));
  }

  void write(const Metrics& metrics) override { append(metrics.step, field(5, Wire::kBytes, summary_of(metrics))); }

 private:
  void append(int64_t step, const std::string& what) {
    file_.append(record(field(1, Wire::kFixed64, fixed(unix_seconds())) +
                        field(2, Wire::kVarint, varint(static_cast<uint64_t>(step))) + what));
  }

  /// TensorBoard reads files in the order of their names; a run may go on in the second in which it was killed.
  static std::string file_name() {
    char host[256] = "localhost";
    gethostname(host, sizeof(host) - 1);
    return concat("events.out.tfevents.", printed("%.3f", unix_seconds()), ".", host, ".", getpid());
  }

  static std::string record(const std::string& event) {
    const std::string length = fixed(static_cast<uint64_t>(event.size()));
    return length + masked_crc(length) + event + masked_crc(event);
  }

  detail::AppendedFile file_;
};

const Registered<SinkKind> kTensorboard{
    "tensorboard",
    {},
    "events.out.tfevents.<seconds>.<host>.<process> for TensorBoard: a new file for each start",
    [](const Spec&, const SinkContext& context) { return std::make_unique<TensorBoardSink>(context); },
    {.files = "events.out.tfevents.*"}};

}  // namespace
}  // namespace penstock
