// BatchNorm2d: statistics, forward and backward over ranks.
#include "train/nn/batch_norm.h"

#include <ATen/Context.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "train/nn/rounding.h"

namespace penstock {
namespace {

using torch::Tensor;

constexpr int64_t kOverRows[] = {0, 2, 3};

/// One number per channel, so that it can be combined with N x C x H x W.
Tensor by_channel(const Tensor& numbers) { return numbers.view({1, -1, 1, 1}); }

struct Statistics {
  Tensor mean, variance;  // f64, C
  Tensor count;           // f64, 1: elements per channel
};

/// Those of all rows of `all`, N x (2 C + 1): means, squared deviations from them, and elements per channel.
Statistics joined(const Tensor& all) {
  const int64_t channels = all.size(1) / 2;
  const auto means = all.narrow(1, 0, channels), deviations = all.narrow(1, channels, channels);
  const auto counts = all.narrow(1, 2 * channels, 1);
  const auto count = counts.sum(0);
  const auto mean = (means * counts).sum(0) / count;
  return {mean, (deviations + counts * (means - mean).square()).sum(0) / count, count};
}

/// Those of all ranks.
Statistics statistics_of(const Tensor& x, const GatherRanks& gather) {
  const int64_t channels = x.size(1);
  auto own = torch::zeros({2 * channels + 1}, x.options().dtype(torch::kFloat64).requires_grad(false));
  if (x.numel() > 0) {
    const auto count = static_cast<double>(x.numel() / channels);
    const auto [variance, mean] = at::var_mean(x, at::IntArrayRef(kOverRows), /*correction=*/at::Scalar(0));
    own.narrow(0, 0, channels).copy_(mean);
    own.narrow(0, channels, channels).copy_(variance).mul_(count);
    own[2 * channels].fill_(count);
  }
  return joined(gather(own));
}

/// As LibTorch's layers do, and in their words.
void check_has_variance(const Tensor& x) {
  TORCH_CHECK(x.numel() != x.size(1), "Expected more than 1 value per channel when training, got input size ",
              x.sizes());
}

struct Gather final : torch::CustomClassHolder {
  explicit Gather(GatherRanks gather) : gather(std::move(gather)) {}
  GatherRanks gather;
};

/// y = weight (x - mean) / sqrt(variance + eps) + bias with statistics of all ranks, on which x has an influence.
class SyncedNorm : public torch::autograd::Function<SyncedNorm> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, const Statistics& statistics, double eps, const GatherRanks& gather) {
    const auto mean = statistics.mean.to(x.scalar_type()), variance = statistics.variance.to(x.scalar_type());
    context->save_for_backward({x, weight, mean, variance, statistics.count});
    context->saved_data["eps"] = eps;
    context->saved_data["gather"] = c10::IValue::make_capsule(c10::make_intrusive<Gather>(gather));
    if (x.numel() == 0) return torch::empty_like(x);
    return std::get<0>(at::native_batch_norm(x, weight, bias, mean, variance, /*training=*/false, /*momentum=*/0, eps));
  }

  /// With x^ the normalised x and n the elements of all ranks per channel:
  ///
  ///     dx = weight / sqrt(variance + eps) (dy - sum(dy) / n - x^ sum(dy x^) / n)     sums over all ranks
  ///     dweight = sum(dy x^), dbias = sum(dy)                                         sums over this rank
  ///
  /// (Ioffe and Szegedy 2015, sec. 3). Ranks sum the gradients of the weights as all others, later.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &mean = saved[2], &variance = saved[3], &count = saved[4];
    const double eps = context->saved_data["eps"].toDouble();
    const auto& gather = c10::static_intrusive_pointer_cast<Gather>(context->saved_data["gather"].toCapsule())->gather;
    const auto& dy = gradients[0];
    const int64_t channels = x.size(1);
    auto own = torch::zeros({2, channels}, x.options());
    if (x.numel() > 0) {
      const auto sums = at::native_batch_norm_backward(dy, x, weight, mean, variance, {}, {}, /*train=*/false, eps,
                                                       {false, true, true});
      own[0].copy_(std::get<2>(sums));
      own[1].copy_(std::get<1>(sums));
    }
    const auto means = (gather(own).to(torch::kFloat64).sum(0) / count).to(x.scalar_type());
    const auto scale = (variance + eps).rsqrt();
    auto dx = (x - by_channel(mean)).mul_(by_channel(-scale * means[1]));
    dx.add_(dy).sub_(by_channel(means[0])).mul_(by_channel(scale * weight));
    return {dx, own[1], own[0], Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor BatchNorm2dImpl::forward(const Tensor& x) {
  const bool is_half = x.scalar_type() == torch::kHalf || x.scalar_type() == torch::kBFloat16;
  const double scale = is_half ? gradient_scale_ : 1;
  if (gather_ && is_training()) {
    const auto y = synced(is_half ? x.to(weight.scalar_type()) : x, detail::unscaled(weight, scale),
                          detail::unscaled(bias, scale));
    return y.to(x.scalar_type());
  }
  if (defers_ && is_training()) return deferred(x, detail::unscaled(weight, scale), detail::unscaled(bias, scale));
  if (scale == 1) return torch::nn::BatchNorm2dImpl::forward(x);
  if (is_training()) {
    num_batches_tracked += 1;
    check_has_variance(x);
  }
  return torch::batch_norm(x, detail::unscaled(weight, scale), detail::unscaled(bias, scale), running_mean, running_var,
                           is_training(), *options.momentum(), options.eps(), at::globalContext().userEnabledCuDNN());
}

Tensor BatchNorm2dImpl::synced(const Tensor& x, const Tensor& own_weight, const Tensor& own_bias) {
  Statistics statistics;
  {
    at::NoGradGuard no_grad;
    statistics = statistics_of(x, gather_);
    const double share = *options.momentum();
    num_batches_tracked += 1;
    running_mean.mul_(1 - share).add_(statistics.mean.to(x.scalar_type()), share);
    const auto unbiased = statistics.variance * statistics.count / (statistics.count - 1);
    running_var.mul_(1 - share).add_(unbiased.to(x.scalar_type()), share);
  }
  return SyncedNorm::apply(x, own_weight, own_bias, statistics, options.eps(), gather_);
}

/// With a momentum of 1 the statistics of this micro-batch take the place of the running ones.
Tensor BatchNorm2dImpl::deferred(const Tensor& x, const Tensor& own_weight, const Tensor& own_bias) {
  check_has_variance(x);
  const auto mean = torch::zeros_like(running_mean), variance = torch::ones_like(running_var);
  const auto y = torch::batch_norm(x, own_weight, own_bias, mean, variance, /*training=*/true, /*momentum=*/1,
                                   options.eps(), at::globalContext().userEnabledCuDNN());
  if (!collects_) return y;
  at::NoGradGuard no_grad;
  const auto count = static_cast<double>(x.numel() / x.size(1));
  const auto deviations = variance.to(torch::kFloat64) * (count - 1);
  const auto own = torch::cat({mean.to(torch::kFloat64), deviations, torch::full({1}, count, deviations.options())});
  if (!collected_.defined()) {
    collected_ = own;
    return y;
  }
  const auto both = joined(torch::stack({collected_, own}));
  collected_ = torch::cat({both.mean, both.variance * both.count, both.count});
  return y;
}

void BatchNorm2dImpl::defer(bool on) {
  defers_ = on;
  collects_ = false;
  collected_.reset();
}

Tensor BatchNorm2dImpl::take_collected() {
  if (collected_.defined()) return std::exchange(collected_, {});
  return torch::zeros({2 * running_mean.size(0) + 1}, running_mean.options().dtype(torch::kFloat64));
}

void BatchNorm2dImpl::commit(const Tensor& all) {
  at::NoGradGuard no_grad;
  const auto statistics = joined(all);
  const auto has_rows = statistics.count.gt(0);
  const auto unbiased = statistics.variance * statistics.count / (statistics.count - 1);
  const double share = *options.momentum();
  for (const auto& [running, now] : {std::pair(running_mean, statistics.mean), std::pair(running_var, unbiased)})
    running.copy_(torch::where(has_rows, running * (1 - share) + now.to(running.scalar_type()) * share, running));
  num_batches_tracked.add_(has_rows[0]);
}

}  // namespace penstock
