// Predictions: makes lines and counts from the rows that are gathered from all ranks.
#include "train/loop/predictions.h"

#include <cstdio>

#include "core/atomic_file.h"
#include "core/text.h"

namespace penstock {
namespace {

constexpr int64_t kTop = 5;
// Columns of a gathered row. f64 holds positions and classes exactly. Rows that do not count have position -1.
enum Column { kPosition, kLabel, kPrediction, kIsInTop, kLoss, kColumnCount };

/// This rank's rows, f64 rows x kColumnCount, on the device, where the communicator needs them.
torch::Tensor rows_of(const DeviceBatch& batch, const torch::Tensor& logits, const torch::Tensor& losses,
                      const torch::Device& device) {
  const auto options = torch::dtype(torch::kFloat64).device(device);
  const auto rows = torch::full({batch.rows, kColumnCount}, -1, options);
  if (!logits.defined()) return rows;
  const auto positions = torch::arange(batch.rows, options) + static_cast<double>(batch.first_position);
  rows.select(1, kPosition).copy_(positions.masked_fill(batch.weights.le(0), -1));
  rows.select(1, kLabel).copy_(batch.labels);
  rows.select(1, kPrediction).copy_(logits.argmax(1));
  // Counts logits that are not less or equal, instead of greater ones: no logit is greater than a nan.
  const auto own = logits.gather(1, batch.labels.unsqueeze(1));
  rows.select(1, kIsInTop).copy_(logits.le(own).logical_not().sum(1).lt(kTop));
  rows.select(1, kLoss).copy_(losses);
  return rows;
}

/// `text` as a field of CSV (RFC 4180): if it holds a separator, a quote or a line end, it is quoted and its quotes are
/// doubled.
std::string field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return quoted + "\"";
}

}  // namespace

Predictions::Predictions(Comm& comm, const torch::Device& device, std::shared_ptr<const Dataset> dataset,
                         const std::filesystem::path& csv)
    : comm_(comm), device_(device), dataset_(std::move(dataset)), classes_(dataset_->manifest().class_names.size()) {
  if (comm_.rank() != 0) return;
  csv_ = std::make_unique<AtomicFile>(csv);
  csv_->write("id,path,label,prediction,top5,loss\n");
}

Predictions::~Predictions() = default;

void Predictions::add(const DeviceBatch& batch, const torch::Tensor& logits, const torch::Tensor& losses) {
  at::NoGradGuard no_grad;
  const auto all = comm_.all_gather(rows_of(batch, logits, losses, device_)).cpu().contiguous();
  if (!csv_) return;
  const double* const rows = all.const_data_ptr<double>();
  for (int64_t row = 0; row < all.numel() / kColumnCount; ++row)
    if (rows[row * kColumnCount + kPosition] >= 0) write_row(rows + row * kColumnCount);
}

void Predictions::write_row(const double* row) {
  const auto label = static_cast<int64_t>(row[kLabel]), prediction = static_cast<int64_t>(row[kPrediction]);
  auto& tally = classes_[static_cast<size_t>(label)];
  ++tally.count;
  tally.hit_count += label == prediction;
  tally.top5_count += row[kIsInTop] > 0;
  ++tally.predictions[prediction];
  const auto& names = dataset_->manifest().class_names;
  const Sample sample = dataset_->at(static_cast<uint64_t>(row[kPosition]));
  char end[32];
  std::snprintf(end, sizeof(end), ",%d,%.6g\n", row[kIsInTop] > 0 ? 1 : 0, row[kLoss]);
  csv_->write(concat(sample.id, ',', field(sample.path), ',', field(names[static_cast<size_t>(label)]), ',',
                     field(names[static_cast<size_t>(prediction)]), end));
}

void Predictions::commit() { csv_->commit(); }

}  // namespace penstock
