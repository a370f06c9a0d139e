// repeat: n copies of a sample in one batch, each augmented on its own (Hoffer et al. 2020, "Augment your batch").
#include <algorithm>
#include <memory>

#include "loader/order/order.h"
#include "loader/samplers/sampler.h"

namespace penstock {
namespace {

/// A batch of B rows has B / n samples: rows 0 .. B/n - 1 have their first copies, the next B/n rows their second ones,
/// and so on. With n ranks or more, none therefore has a sample twice.
class Repeat final : public Sampler {
 public:
  Repeat(const Spec& spec, const SamplerContext& context)
      : size_(context.size()),
        copies_(copies_of(spec)),
        batch_size_(static_cast<uint64_t>(context.batch_size)),
        rows_(rows_of(spec, size_ * copies_)),
        seed_(context.seed),
        is_shuffled_(context.is_shuffled) {
    if (batch_size_ % copies_ != 0)
      throw config_error(concat(spec.where(), ": n is ", copies_, " with a batch size of ", batch_size_,
                                "; expected a batch size that is a multiple of n"));
    if (rows_ % copies_ != 0 || rows_ > size_ * copies_)
      throw config_error(concat(spec.where(), ": rows is ", rows_, "; expected a multiple of n, at most ",
                                size_ * copies_, " for ", size_, " samples"));
  }

  uint64_t rows() const override { return rows_; }
  std::string text() const override {
    return concat(rows_ / copies_, " samples occur ", copies_, " times each, in one batch");
  }
  std::unique_ptr<const SampledEpoch> epoch(int64_t epoch) const override {
    return std::make_unique<Epoch>(*this, static_cast<uint64_t>(epoch));
  }

 private:
  static uint64_t copies_of(const Spec& spec) {
    const int copies = spec.get("n", 3);
    if (copies < 1) throw config_error(concat(spec.where(), ": n is ", copies, "; expected 1 or more copies"));
    return static_cast<uint64_t>(copies);
  }

  struct Epoch final : SampledEpoch {
    Epoch(const Repeat& repeat, uint64_t epoch)
        : sampler(repeat),
          order(repeat.is_shuffled_ ? Order::shuffled(repeat.size_, repeat.seed_, epoch)
                                    : Order::sequential(repeat.size_)) {}
    Draw at(uint64_t position) const override {
      const uint64_t batch_size = sampler.batch_size_, begin = position / batch_size * batch_size;
      const uint64_t samples = std::min(batch_size, sampler.rows_ - begin) / sampler.copies_, row = position - begin;
      return {order.at(begin / sampler.copies_ + row % samples), static_cast<uint32_t>(row / samples)};
    }

    const Repeat& sampler;
    Order order;
  };

  uint64_t size_, copies_, batch_size_, rows_, seed_;
  bool is_shuffled_;
};

const Registered<SamplerKind> kRepeat{
    "repeat",
    {"n", "rows"},
    "n=COPIES (3) of every sample in one batch, each augmented on its own, and on ranks of their own where there are "
    "as "
    "many; the batch size is a multiple of n; rows=ROWS per epoch (default: n times as many as samples)",
    [](const Spec& spec, const SamplerContext& context) { return std::make_unique<Repeat>(spec, context); }};

}  // namespace
}  // namespace penstock
