// jsonl: writes metrics.jsonl, one JSON object per line; its `kind` is step or epoch.
#include <nlohmann/json.hpp>

#include "train/sinks/log_file.h"
#include "train/sinks/sink.h"

namespace penstock {
namespace {

/// The step of a line that was written before the checkpoint; INT64_MAX for others.
int64_t json_step(const std::string& line, int64_t ended_epochs) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto number = [&](const char* key) {
    return json.is_object() && json.contains(key) && json[key].is_number_integer() ? json[key].get<int64_t>()
                                                                                   : INT64_MAX;
  };
  const bool is_later = number("epoch") > ended_epochs && json.contains("kind") && json["kind"] == "epoch";
  return is_later ? INT64_MAX : number("step");
}

class JsonlSink final : public Sink {
 public:
  explicit JsonlSink(const SinkContext& context)
      : file_(context.folder / "metrics.jsonl", context.resumed_step,
              [&](const std::string& line) { return json_step(line, context.ended_epochs); }) {}

  void write(const Metrics& metrics) override {
    nlohmann::ordered_json json{{"kind", metrics.kind == Metrics::Kind::kStep ? "step" : "epoch"},
                                {"epoch", metrics.epoch},
                                {"step", metrics.step},
                                {"loss", metrics.loss},
                                {"accuracy", metrics.accuracy ? nlohmann::json(*metrics.accuracy) : nlohmann::json()},
                                {"learning_rate", metrics.learning_rate},
                                {"seconds", metrics.seconds},
                                {"images_per_second", metrics.images_per_second},
                                {"load_ms", metrics.load_ms},
                                {"update_ms", metrics.update_ms}};
    for (int phase = 0; phase < kPhaseCount; ++phase)
      json["phase_ms"][kPhaseNames[phase]] = metrics.a_step[Phase{phase}];
    json["hidden_communication_ms"] = metrics.a_step.hidden_communication();
    json["ready_share"] = metrics.ready_share;
    json["loader_idle_share"] = metrics.loader_idle_share;
    if (metrics.link_bytes_per_second) json["link_bytes_per_second"] = *metrics.link_bytes_per_second;
    if (metrics.link_stall_ms) json["link_stall_ms"] = *metrics.link_stall_ms;
    if (metrics.is_emulated) json["emulated"] = true;
    if (metrics.test_accuracy) json["test_accuracy"] = *metrics.test_accuracy;
    for (const auto& [key, score] : metrics.test_scores) json["test_" + key] = score;
    if (metrics.test_loss) json["test_loss"] = *metrics.test_loss;
    if (metrics.compression_error) json["compression_error"] = *metrics.compression_error;
    if (!metrics.gradient_norms.empty()) json["gradient_norms"] = metrics.gradient_norms;
    if (metrics.gpu_busy_percent) json["gpu_busy_percent"] = *metrics.gpu_busy_percent;
    if (metrics.gpu_memory_bytes) json["gpu_memory_bytes"] = *metrics.gpu_memory_bytes;
    file_.line(json.dump());
  }

 private:
  detail::LogFile file_;
};

const Registered<SinkKind> kJsonl{
    "jsonl",
    {},
    "metrics.jsonl: one JSON object per record, every --print-freq steps and after each epoch",
    [](const Spec&, const SinkContext& context) { return std::make_unique<JsonlSink>(context); },
    {.files = "metrics.jsonl"}};

}  // namespace
}  // namespace penstock
