// Losses: what is common to all of them.
#include "train/losses/loss.h"

#include "core/error.h"
#include "core/text.h"

namespace penstock {

torch::Tensor Loss::of_rows(const torch::Tensor& outputs, DeviceBatch rows) const {
  rows.images.reset();
  const auto share = rows.mix_weights, second_labels = rows.second_labels;
  rows.mix_weights.reset();
  rows.second_labels.reset();
  const auto own = of_targets(outputs, rows);
  if (!second_labels.defined()) return own;
  rows.labels = second_labels;
  return own * share + of_targets(outputs, rows) * (1 - share);
}

const LossTarget& Loss::target() const {
  static const LossTarget of_class;
  return of_class;
}

std::shared_ptr<const Loss> make_loss(const std::string& text, const LossOptions& options) {
  const Spec spec = parse_spec(LossKind::kName, text);
  const auto entry = LossRegistry::entries().find(spec.name());
  if (entry == LossRegistry::entries().end())
    throw config_error(concat("--loss: ", unknown_name(LossKind::kName, spec.name(), LossRegistry::names())));
  if (options.label_smoothing > 0 && !entry->second.traits.smooths_labels)
    throw config_error(concat("--label-smoothing is ", options.label_smoothing, " with --loss ", text,
                              ", which does not smooth labels; expected 0, or --loss cross-entropy or bce"));
  return LossRegistry::make(spec, options);
}

torch::Tensor hits(const torch::Tensor& outputs, const DeviceBatch& rows) {
  const auto main = rows.second_labels.defined()
                        ? torch::where(rows.mix_weights.ge(0.5), rows.labels, rows.second_labels)
                        : rows.labels;
  return outputs.argmax(1).eq(main).logical_and_(rows.weights.gt(0)).sum();
}

}  // namespace penstock
