// class-balanced: classes in equal shares, or nearer to that than they are.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/number_text.h"
#include "loader/order/group_order.h"
#include "loader/order/order.h"
#include "loader/samplers/sampler.h"
#include "loader/samplers/weights.h"

namespace penstock {
namespace {

constexpr double kMostPower = 16;

/// The elements, class by class.
struct Classes {
  std::vector<uint64_t> members;  // elements
  std::vector<uint64_t> sizes;    // one entry per class
};

Classes classes_of(const Spec& spec, const SamplerContext& context) {
  const size_t class_count = context.dataset.manifest().class_names.size();
  if (class_count == 0)
    throw config_error(concat(spec.where(), ": ", context.dataset.folder().string(),
                              " has no classes; expected a data set with some"));
  std::vector<uint32_t> labels(context.size());
  Classes classes{std::vector<uint64_t>(context.size()), std::vector<uint64_t>(class_count)};
  for (uint64_t e = 0; e < labels.size(); ++e) {
    labels[e] = static_cast<uint32_t>(context.dataset.at(context.index_of(e)).label);
    ++classes.sizes[labels[e]];
  }
  std::vector<uint64_t> ends(class_count);
  for (size_t c = 1; c < class_count; ++c) ends[c] = ends[c - 1] + classes.sizes[c - 1];
  for (uint64_t e = 0; e < labels.size(); ++e) classes.members[ends[labels[e]]++] = e;
  return classes;
}

/// count * count^-power per class: what the samples of a class weigh together. Classes without samples weigh nothing.
std::vector<uint64_t> class_weights(const Spec& spec, const std::vector<uint64_t>& sizes, double power) {
  const double most = static_cast<double>(*std::max_element(sizes.begin(), sizes.end()));
  std::vector<double> weights;
  for (const uint64_t size : sizes) {
    const auto count = static_cast<double>(size);
    // (most / count)^power instead of count^-power: it is 1 or more, and finite up to the largest power.
    weights.push_back(size == 0 ? 0 : power == 1 ? 1 : count * same_power(most / count, power));
  }
  return whole_weights(weights, spec.where(), [](uint64_t c) { return concat("class ", c); });
}

class ClassBalanced final : public Sampler {
 public:
  ClassBalanced(const Spec& spec, const SamplerContext& context, Classes classes, double power)
      : members_(std::move(classes.members)),
        order_(classes.sizes, class_weights(spec, classes.sizes, power)),
        rows_(rows_of(spec, context.size())),
        seed_(context.seed),
        is_shuffled_(context.is_shuffled) {}

  uint64_t rows() const override { return rows_; }

  std::string text() const override {
    const GroupOrder::Epoch first(order_, rows_, seed_, 0, is_shuffled_);
    uint64_t least = UINT64_MAX, most = 0, empty = 0;
    for (size_t c = 0; c < order_.group_count(); ++c) {
      if (order_.begin(c) == order_.begin(c + 1)) {
        ++empty;
        continue;
      }
      least = std::min(least, first.rows_of(c)), most = std::max(most, first.rows_of(c));
    }
    return concat(count_text(order_.group_count() - empty, "class", "classes"), " of ", least, " to ", most,
                  " rows each", empty > 0 ? concat(", ", empty, " without samples") : std::string());
  }

  std::unique_ptr<const SampledEpoch> epoch(int64_t epoch) const override {
    return std::make_unique<Epoch>(*this, static_cast<uint64_t>(epoch));
  }

 private:
  struct Epoch final : SampledEpoch {
    Epoch(const ClassBalanced& sampler, uint64_t epoch)
        : members(sampler.members_),
          groups(sampler.order_, sampler.rows_, sampler.seed_, epoch, sampler.is_shuffled_),
          order(sampler.is_shuffled_ ? Order::shuffled(sampler.rows_, sampler.seed_, epoch)
                                     : Order::sequential(sampler.rows_)) {}
    Draw at(uint64_t position) const override {
      const Draw draw = groups.at(order.at(position));
      return {members[draw.element], draw.copy};
    }

    const std::vector<uint64_t>& members;
    GroupOrder::Epoch groups;
    Order order;
  };

  std::vector<uint64_t> members_;
  GroupOrder order_;
  uint64_t rows_, seed_;
  bool is_shuffled_;
};

const Registered<SamplerKind> kClassBalanced{
    "class-balanced",
    {"power", "rows"},
    "a sample of a class with n samples weighs 1 / n^power, so that with power=1 (default) all classes have as many "
    "rows; 0: as they are; 0.5: in between. Inside of a class all samples occur equally often, or once more than "
    "another; rows=ROWS per epoch (default: as many as samples)",
    [](const Spec& spec, const SamplerContext& context) -> std::unique_ptr<Sampler> {
      const double power = spec.get("power", 1.0);
      if (!(power >= 0 && power <= kMostPower))
        throw config_error(concat(spec.where(), ": power is ", power, "; expected 0 to ", kMostPower));
      return std::make_unique<ClassBalanced>(spec, context, classes_of(spec, context), power);
    }};

}  // namespace
}  // namespace penstock
