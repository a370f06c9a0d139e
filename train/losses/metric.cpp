// Metrics: accuracy, average precision and errors.
#include "train/losses/metric.h"

#include <limits>
#include <utility>

#include "train/losses/target.h"

namespace penstock {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

class Accuracy final : public Metric {
 public:
  explicit Accuracy(int64_t class_count) : class_count_(class_count) {}

  /// The rows of each class, then the hits of each.
  int64_t size() const override { return 2 * class_count_; }
  torch::Tensor of_batch(const torch::Tensor& outputs, const DeviceBatch& rows) const override {
    const auto classes = torch::arange(class_count_, rows.labels.options());
    const auto counts = rows.weights.gt(0).unsqueeze(1);
    const auto is_of_class = rows.labels.unsqueeze(1).eq(classes).logical_and(counts);
    const auto hits = outputs.argmax(1).eq(rows.labels).unsqueeze(1);
    return torch::cat({is_of_class.sum(0), is_of_class.logical_and(hits).sum(0)}).to(torch::kFloat64);
  }
  std::vector<std::string> names() const override { return {"accuracy"}; }
  int64_t class_count() const override { return class_count_; }
  torch::Tensor scores(const torch::Tensor& all) const override {
    const auto counts = all.narrow(0, 0, class_count_), hits = all.narrow(0, class_count_, class_count_);
    return torch::cat({hits.sum(0, /*keepdim=*/true) / counts.sum(0, /*keepdim=*/true).clamp_min(1), hits / counts});
  }

 private:
  int64_t class_count_;
};

/// For one class. `outputs`, `targets`: one number per row; a target above a half is a yes.
double average_precision(const torch::Tensor& outputs, const torch::Tensor& targets) {
  const auto [sorted, order] = outputs.sort(/*dim=*/0, /*descending=*/true);
  const auto is_yes = targets.gt(0.5).index_select(0, order).contiguous();
  const auto values = sorted.contiguous();
  const double* const value = values.const_data_ptr<double>();
  const bool* const yes = is_yes.const_data_ptr<bool>();
  const auto positives = is_yes.sum().item<int64_t>();
  if (positives == 0) return kNone;
  double sum = 0;
  int64_t found = 0, found_before = 0;
  for (int64_t i = 0; i < values.numel(); ++i) {
    found += yes[i];
    if (i + 1 < values.numel() && value[i + 1] == value[i]) continue;
    sum += static_cast<double>(found - found_before) * static_cast<double>(found) / static_cast<double>(i + 1);
    found_before = found;
  }
  return sum / static_cast<double>(positives);
}

class AveragePrecision final : public Metric {
 public:
  explicit AveragePrecision(int64_t class_count) : class_count_(class_count) {}

  bool keeps_rows() const override { return true; }
  /// The weight, outputs and targets.
  int64_t size() const override { return 1 + 2 * class_count_; }
  torch::Tensor of_batch(const torch::Tensor& outputs, const DeviceBatch& rows) const override {
    const auto wanted = detail::targets_of(rows, class_count_).to(torch::kFloat64);
    return torch::cat({rows.weights.unsqueeze(1).to(torch::kFloat64), outputs.to(torch::kFloat64), wanted}, /*dim=*/1);
  }
  std::vector<std::string> names() const override { return {"mean average precision"}; }
  int64_t class_count() const override { return class_count_; }
  torch::Tensor scores(const torch::Tensor& all) const override {
    auto scores = torch::full({1 + class_count_}, kNone, torch::kFloat64);
    for (int64_t i = 0; i < class_count_; ++i)
      scores[1 + i] = average_precision(all.select(1, 1 + i), all.select(1, 1 + class_count_ + i));
    scores[0] = scores.slice(0, 1).nanmean();
    return scores;
  }

 private:
  int64_t class_count_;
};

class Errors final : public Metric {
 public:
  explicit Errors(bool squared_first) : squared_first_(squared_first) {}

  /// The numbers that count, their absolute errors and their squared ones.
  int64_t size() const override { return 3; }
  torch::Tensor of_batch(const torch::Tensor& outputs, const DeviceBatch& rows) const override {
    const auto wanted = detail::targets_of(rows, outputs.size(1)).to(torch::kFloat64);
    const auto counts = rows.weights.gt(0).unsqueeze(1);
    const auto differences = (outputs.to(torch::kFloat64) - wanted).masked_fill(counts.logical_not(), 0);
    const auto count = counts.sum().to(torch::kFloat64) * static_cast<double>(outputs.size(1));
    return torch::stack({count, differences.abs().sum(), differences.square().sum()});
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names{"mean absolute error", "root mean squared error"};
    if (squared_first_) std::swap(names[0], names[1]);
    return names;
  }
  torch::Tensor scores(const torch::Tensor& all) const override {
    const auto absolute = all[1] / all[0], squared = (all[2] / all[0]).sqrt();
    return squared_first_ ? torch::stack({squared, absolute}) : torch::stack({absolute, squared});
  }
  bool is_error() const override { return true; }

 private:
  bool squared_first_;
};

}  // namespace

std::unique_ptr<Metric> make_accuracy(int64_t class_count) { return std::make_unique<Accuracy>(class_count); }

std::unique_ptr<Metric> make_average_precision(int64_t class_count) {
  return std::make_unique<AveragePrecision>(class_count);
}

std::unique_ptr<Metric> make_errors(bool squared_first) { return std::make_unique<Errors>(squared_first); }

}  // namespace penstock
