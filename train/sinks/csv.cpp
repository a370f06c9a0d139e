// csv: writes metrics.csv, one row of figures per epoch, for spreadsheets.
#include <sstream>

#include "core/number.h"
#include "core/text.h"
#include "train/sinks/log_file.h"
#include "train/sinks/sink.h"

namespace penstock {
namespace {

std::string header(const std::vector<std::string>& test_scores) {
  std::string names =
      "epoch,step,loss,accuracy,test_loss,test_accuracy,learning_rate,seconds,images_per_second,load_ms,update_ms";
  for (const char* phase : kPhaseNames) names += concat(",", phase, "_ms");
  names += ",hidden_communication_ms,ready_share,loader_idle_share";
  for (const auto& key : test_scores) names += ",test_" + key;
  return names;
}

/// The step in a line, which is its second column after the epoch, if it was written before the checkpoint; INT64_MAX
/// for others. The header counts as step 0.
int64_t csv_step(const std::string& line, int64_t ended_epochs) {
  const auto columns = split(line, ',');
  if (columns[0] == "epoch") return 0;
  const auto number = [&](size_t column) {
    return column < columns.size() ? parse_number<int64_t>(columns[column]).value_or(INT64_MAX) : INT64_MAX;
  };
  return number(0) > ended_epochs ? INT64_MAX : number(1);
}

class CsvSink final : public Sink {
 public:
  explicit CsvSink(const SinkContext& context)
      : test_scores_(context.test_scores),
        file_(context.folder / "metrics.csv", context.resumed_step, [&](const std::string& line) {
          if (line.starts_with("epoch,")) keep_columns_of(line);
          return csv_step(line, context.ended_epochs);
        }) {
    if (file_.is_empty()) file_.line(header(test_scores_));
  }

  void write(const Metrics& metrics) override {
    if (metrics.kind != Metrics::Kind::kEpoch) return;
    std::ostringstream row;
    row.precision(9);
    const auto optional = [](const std::optional<double>& value) { return value ? concat(*value) : std::string(); };
    row << metrics.epoch << ',' << metrics.step << ',' << metrics.loss << ',' << optional(metrics.accuracy) << ','
        << optional(metrics.test_loss) << ',' << optional(metrics.test_accuracy) << ',' << metrics.learning_rate << ','
        << metrics.seconds << ',' << metrics.images_per_second << ',' << metrics.load_ms << ',' << metrics.update_ms;
    for (const double phase_ms : metrics.a_step.phase) row << ',' << phase_ms;
    row << ',' << metrics.a_step.hidden_communication() << ',' << metrics.ready_share << ','
        << metrics.loader_idle_share;
    for (const auto& key : test_scores_) row << ',' << optional(score_of(metrics, key));
    file_.line(row.str());
  }

 private:
  /// The file that a resumed run goes on with may be of a version that had no columns for these scores.
  void keep_columns_of(const std::string& header) {
    std::erase_if(test_scores_,
                  [&](const std::string& key) { return header.find(",test_" + key) == std::string::npos; });
  }

  /// Nothing in an epoch that was not evaluated.
  static std::optional<double> score_of(const Metrics& metrics, const std::string& key) {
    for (const auto& [name, score] : metrics.test_scores)
      if (name == key) return score;
    return std::nullopt;
  }

  std::vector<std::string> test_scores_;
  detail::LogFile file_;
};

const Registered<SinkKind> kCsv{
    "csv",
    {},
    "metrics.csv: one row per epoch",
    [](const Spec&, const SinkContext& context) { return std::make_unique<CsvSink>(context); },
    {.files = "metrics.csv"}};

}  // namespace
}  // namespace penstock
