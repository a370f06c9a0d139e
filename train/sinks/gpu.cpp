// gpu: writes gpu.csv, one row per sample of the GPU's use. In a run without such samples there is no file.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "core/number.h"
#include "core/text.h"
#include "train/sinks/log_file.h"
#include "train/sinks/sink.h"

namespace penstock {
namespace {

/// The step in a line, which is its first column; the header counts as step 0.
int64_t gpu_step(const std::string& line) {
  if (line.starts_with("step")) return 0;
  std::string_view rest = line;
  return take_number<int64_t>(rest).value_or(INT64_MAX);
}

class GpuSink final : public Sink {
 public:
  GpuSink(std::filesystem::path folder, int64_t resumed_step)
      : path_(std::move(folder) / "gpu.csv"), resumed_step_(resumed_step) {
    // The rows after the step that the run goes on from must go, also if no sample comes any more.
    if (std::filesystem::exists(path_)) open();
  }

  void write(const Metrics& metrics) override {
    if (metrics.gpu_samples.empty()) return;
    if (!file_) open();
    if (file_->is_empty()) file_->line("step,seconds,busy_percent,memory_busy_percent,memory_bytes,memory_total_bytes");
    std::ostringstream rows;
    for (const auto& sample : metrics.gpu_samples)
      rows << (&sample == &metrics.gpu_samples.front() ? "" : "\n") << metrics.step << ',' << sample.seconds << ','
           << sample.busy_percent << ',' << sample.memory_busy_percent << ',' << sample.memory_bytes << ','
           << sample.memory_total_bytes;
    file_->line(rows.str());
  }

 private:
  void open() { file_ = std::make_unique<detail::LogFile>(path_, resumed_step_, gpu_step); }

  std::filesystem::path path_;
  int64_t resumed_step_;
  std::unique_ptr<detail::LogFile> file_;  // null: there is none, and no sample has come yet
};

const Registered<SinkKind> kGpu{
    "gpu",
    {},
    "gpu.csv: one row per sample of the GPU's use, about ten per second; its step is that of the record after it",
    [](const Spec&, const SinkContext& context) {
      return std::make_unique<GpuSink>(context.folder, context.resumed_step);
    },
    {.files = "gpu.csv"}};

}  // namespace
}  // namespace penstock
