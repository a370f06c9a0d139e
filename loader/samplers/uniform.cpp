// uniform: every sample equally often, or once more than another, in epochs of any length.
#include <memory>

#include "loader/order/group_order.h"
#include "loader/samplers/line_epoch.h"
#include "loader/samplers/sampler.h"

namespace penstock {
namespace {

class Uniform final : public Sampler {
 public:
  Uniform(const Spec& spec, const SamplerContext& context)
      : order_({context.size()}, {1}),
        size_(context.size()),
        rows_(rows_of(spec, context.size())),
        seed_(context.seed),
        is_shuffled_(context.is_shuffled) {}

  uint64_t rows() const override { return rows_; }
  std::string text() const override {
    return concat("a sample occurs ", rows_ / size_, rows_ % size_ == 0 ? "" : concat(" or ", rows_ / size_ + 1),
                  " times");
  }
  std::unique_ptr<const SampledEpoch> epoch(int64_t epoch) const override {
    return std::make_unique<LineEpoch<GroupOrder>>(order_, rows_, seed_, epoch, is_shuffled_);
  }

 private:
  GroupOrder order_;
  uint64_t size_, rows_, seed_;
  bool is_shuffled_;
};

const Registered<SamplerKind> kUniform{
    "uniform",
    {"rows"},
    "every sample equally often, or once more than another: rows=ROWS per epoch (default: as many as samples)",
    [](const Spec& spec, const SamplerContext& context) { return std::make_unique<Uniform>(spec, context); }};

}  // namespace
}  // namespace penstock
