// ElementwiseLoss: what losses have in common that compare every output of a row with a number of its own.
#pragma once

#include "train/losses/loss.h"

namespace penstock::detail {

/// The loss of a row is the mean over its outputs. Keys: target=FIELD; without it a row's numbers are 1 for its class
/// and 0 for the others.
class ElementwiseLoss : public Loss {
 public:
  explicit ElementwiseLoss(LossTarget target) : target_(std::move(target)) {}
  const LossTarget& target() const override { return target_; }

 private:
  torch::Tensor of_targets(const torch::Tensor& outputs, const DeviceBatch& rows) const final {
    const int64_t count = outputs.size(1);
    const auto wanted = target_.is_class() ? rows.labels.unsqueeze(1).eq(torch::arange(count, rows.labels.options()))
                                           : targets_of(rows, count);
    return of_elements(outputs, wanted.to(outputs.scalar_type())).mean(1);
  }
  /// Rows x outputs, as both arguments.
  virtual torch::Tensor of_elements(const torch::Tensor& outputs, const torch::Tensor& targets) const = 0;

  LossTarget target_;
};

/// One whose evaluations say how large the errors are.
class ErrorLoss : public ElementwiseLoss {
 public:
  ErrorLoss(const Spec& spec, const LossOptions& options)
      : ElementwiseLoss(field_target(spec, options.data, /*takes_labels=*/false)) {}
  std::unique_ptr<Metric> metric(int64_t outputs) const override {
    return target().is_class() ? make_accuracy(outputs) : make_errors(is_squared());
  }

 private:
  virtual bool is_squared() const { return false; }
};

}  // namespace penstock::detail
