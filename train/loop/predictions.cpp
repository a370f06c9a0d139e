// Predictions: makes lines and counts of classes.
#include "train/loop/predictions.h"

#include <utility>

#include "core/number_text.h"
#include "core/text.h"

namespace penstock {
namespace {

constexpr int64_t kTop = 5;
enum Number { kLabel, kPrediction, kIsInTop, kLoss, kNumberCount };

}  // namespace

Predictions::Predictions(Comm& comm, const torch::Device& device, std::shared_ptr<const Dataset> dataset,
                         const std::filesystem::path& csv)
    : SampleTable(comm, device, std::move(dataset), csv, "label,prediction,top5,loss", kNumberCount),
      classes_(manifest().class_names.size()) {}

torch::Tensor Predictions::numbers_of(const DeviceBatch& batch, const torch::Tensor& logits,
                                      const torch::Tensor& losses) const {
  // Counts logits that are not less or equal, instead of greater ones: no logit is greater than a nan.
  const auto own = logits.gather(1, batch.labels.unsqueeze(1));
  const auto is_in_top = logits.le(own).logical_not().sum(1).lt(kTop);
  std::vector<torch::Tensor> columns{batch.labels, logits.argmax(1), is_in_top, losses};
  for (auto& column : columns) column = column.to(torch::kFloat64);
  return torch::stack(columns, /*dim=*/1);
}

std::string Predictions::fields_of(const double* numbers) {
  const auto label = static_cast<int64_t>(numbers[kLabel]), prediction = static_cast<int64_t>(numbers[kPrediction]);
  auto& tally = classes_[static_cast<size_t>(label)];
  ++tally.count;
  tally.hit_count += label == prediction;
  tally.top5_count += numbers[kIsInTop] > 0;
  ++tally.predictions[prediction];
  const auto& names = manifest().class_names;
  return concat(csv_field(names[static_cast<size_t>(label)]), ',', csv_field(names[static_cast<size_t>(prediction)]),
                printed(",%d,%.6g", numbers[kIsInTop] > 0 ? 1 : 0, numbers[kLoss]));
}

std::unique_ptr<SampleTable> make_sample_table(const LossTarget& target, Comm& comm, const torch::Device& device,
                                               std::shared_ptr<const Dataset> dataset,
                                               const std::filesystem::path& csv) {
  if (target.is_class()) return std::make_unique<Predictions>(comm, device, std::move(dataset), csv);
  return std::make_unique<OutputTable>(comm, device, std::move(dataset), csv, target.outputs);
}

}  // namespace penstock
