// PowerSGD: the two products of each matrix, and what is left out.
#include "train/parallel/sync/power_sgd.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/accumulate.h>

namespace penstock::detail {
namespace {

/// One gradient that is sent as P and Q.
struct LowRank {
  std::string name;
  torch::Tensor gradient;  // n x m, a view into the bucket
  torch::Tensor error;     // n x m: E_w, and from start() to turn() D_w
  torch::Tensor p, q;      // n x r and m x r, views into the messages
};

/// A stretch of the bucket that is sent as it is.
struct Plain {
  torch::Tensor gradient, sent;  // one dimension; `sent` is a view into the first message
};

int64_t row_count(torch::IntArrayRef sizes) { return sizes[0]; }
int64_t column_count(torch::IntArrayRef sizes) { return c10::multiply_integers(sizes.slice(1)); }

class PowerSgdCodec final : public BucketCodec {
 public:
  PowerSgdCodec(const NamedTensors& trained, const Bucket& bucket, Comm& comm, const PowerSgd& choice, int rank)
      : comm_(comm) {
    int64_t first_count = 0, second_count = 0;
    for (const size_t i : bucket.members) {
      const auto sizes = trained[i].second.sizes();
      const bool is_low = choice.compresses(sizes);
      first_count += is_low ? rank * row_count(sizes) : trained[i].second.numel();
      second_count += is_low ? rank * column_count(sizes) : 0;
    }
    first_ = torch::zeros({first_count}, bucket.flat.options());
    second_ = torch::zeros({second_count}, bucket.flat.options());
    int64_t offset = 0, first = 0, second = 0;
    const auto take = [](const torch::Tensor& from, int64_t& place, int64_t count) {
      place += count;
      return from.narrow(0, place - count, count);
    };
    for (const size_t i : bucket.members) {
      const auto& [name, parameter] = trained[i];
      const auto gradient = take(bucket.flat, offset, parameter.numel());
      if (!choice.compresses(parameter.sizes())) {
        plain_.push_back({gradient, take(first_, first, parameter.numel())});
        continue;
      }
      const int64_t rows = row_count(parameter.sizes()), columns = column_count(parameter.sizes());
      LowRank one{.name = name,
                  .gradient = gradient.view({rows, columns}),
                  .error = torch::zeros({rows, columns}, gradient.options()),
                  .p = take(first_, first, rows * rank).view({rows, rank}),
                  .q = take(second_, second, columns * rank).view({columns, rank})};
      // The same at every rank; later the last step's Q, which is close to the next one's (sec. 3, "warm start").
      one.q.copy_(torch::randn({columns, rank}, at::detail::createCPUGenerator(i), torch::dtype(torch::kFloat64)));
      low_.push_back(std::move(one));
    }
  }

  std::unique_ptr<Comm::Work> start() override {
    for (auto& one : low_) {
      one.error.add_(one.gradient);
      torch::mm_out(one.p, one.error, one.q);
    }
    for (auto& [gradient, sent] : plain_) sent.copy_(gradient);
    return comm_.all_reduce_sum(first_);
  }

  std::unique_ptr<Comm::Work> turn() override {
    if (low_.empty()) return nullptr;
    for (auto& one : low_) {
      one.p.copy_(std::get<0>(torch::linalg_qr(one.p)));
      torch::mm_out(one.q, one.error.t(), one.p);
      one.error.addmm_(one.p, one.q.t(), /*beta=*/1, /*alpha=*/-1);
    }
    return comm_.all_reduce_sum(second_);
  }

  void finish() override {
    for (auto& one : low_) torch::mm_out(one.gradient, one.p, one.q.t());
    for (auto& [gradient, sent] : plain_) gradient.copy_(sent);
  }

  NamedTensors kept() override {
    NamedTensors all;
    for (const auto& one : low_) {
      all.emplace_back("error." + one.name, one.error);
      all.emplace_back("factor." + one.name, one.q);
    }
    return all;
  }

 private:
  Comm& comm_;
  torch::Tensor first_, second_;  // one dimension each: what the two collectives sum
  std::vector<LowRank> low_;
  std::vector<Plain> plain_;
};

}  // namespace

bool PowerSgd::compresses(torch::IntArrayRef sizes) const {
  if (sizes.size() < 2) return false;
  return rank_ * (row_count(sizes) + column_count(sizes)) < row_count(sizes) * column_count(sizes);
}

int64_t PowerSgd::sent_count(torch::IntArrayRef sizes) const {
  return compresses(sizes) ? rank_ * (row_count(sizes) + column_count(sizes)) : c10::multiply_integers(sizes);
}

std::unique_ptr<BucketCodec> PowerSgd::operator()(const NamedTensors& trained, const Bucket& bucket, Comm& comm) const {
  return std::make_unique<PowerSgdCodec>(trained, bucket, comm, *this, rank_);
}

}  // namespace penstock::detail
