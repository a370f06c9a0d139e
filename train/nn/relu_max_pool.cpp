// ReluMaxPool: the kernels, which work on one plane of H x W at a time.
#include "train/nn/relu_max_pool.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>

namespace penstock::detail {
namespace {

// A winner is as wide as an element, so that the compiler can vectorise both. With winners of one byte the loops below
// take 7 and 12 times as long (conv1 of LeNet, batch 64: 556 and 513 us instead of 78 and 43).
using Winner = int32_t;
constexpr Winner kNowhere = 4;          // winner of a window without a positive element: relu passes no gradient
constexpr int64_t kPlanesOfATask = 64;  // about 20 us of work at 28 x 28

struct Extent2 {
  int64_t height, width;
  int64_t pixels() const { return height * width; }
  Extent2 pooled() const { return {height / 2, width / 2}; }
};

/// The later of two elements wins if it is larger or NaN, as in LibTorch; if they are equal, the first one wins.
template <class T>
void contend(T later, Winner place, T& best, Winner& winner) {
  const bool is_better = (later > best) | (later != later);
  best = is_better ? later : best;
  winner = is_better ? place : winner;
}

/// Pools `width` windows of two rows. The elements of a window are numbered 0 1 in the upper row and 2 3 in the lower.
template <class T>
void pool_rows(const T* __restrict top, const T* __restrict bottom, int64_t width, T* __restrict y,
               Winner* __restrict winners) {
  for (int64_t j = 0; j < width; ++j) {
    T best = top[2 * j];
    Winner winner = 0;
    contend(top[2 * j + 1], 1, best, winner);
    contend(bottom[2 * j], 2, best, winner);
    contend(bottom[2 * j + 1], 3, best, winner);
    const bool is_cut = best <= 0;
    y[j] = is_cut ? T(0) : best;
    winners[j] = is_cut ? kNowhere : winner;
  }
}

/// Writes one row of the gradient: the elements `first` and `first` + 1 of `width` windows.
template <class T>
void unpool_row(const T* __restrict gradient, const Winner* __restrict winners, int64_t width, Winner first,
                T* __restrict row) {
  for (int64_t j = 0; j < width; ++j) {
    const T value = gradient[j];  // loaded always, because a conditional load cannot be vectorised
    const Winner winner = winners[j];
    row[2 * j] = winner == first ? value : T(0);
    row[2 * j + 1] = winner == first + 1 ? value : T(0);
  }
}

template <class T>
void pool_plane(const T* x, Extent2 extent, T* y, Winner* winners) {
  const auto [height, width] = extent.pooled();
  for (int64_t i = 0; i < height; ++i) {
    const T* top = x + 2 * i * extent.width;
    pool_rows(top, top + extent.width, width, y + i * width, winners + i * width);
  }
}

/// Writes the whole plane, except for the last row or column of an odd extent.
template <class T>
void unpool_plane(const T* gradient, const Winner* winners, Extent2 extent, T* x_gradient) {
  const auto [height, width] = extent.pooled();
  for (int64_t i = 0; i < height; ++i) {
    T* top = x_gradient + 2 * i * extent.width;
    unpool_row(gradient + i * width, winners + i * width, width, 0, top);
    unpool_row(gradient + i * width, winners + i * width, width, 2, top + extent.width);
  }
}

/// Calls `kernel(plane)` for every plane, spread over the intra-op threads.
template <class Kernel>
void for_planes(int64_t plane_count, const Kernel& kernel) {
  at::parallel_for(0, plane_count, kPlanesOfATask, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) kernel(plane);
  });
}

class ReluMaxPool : public torch::autograd::Function<ReluMaxPool> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x) {
    const Extent2 extent{x.size(2), x.size(3)}, pooled = extent.pooled();
    auto y = torch::empty({x.size(0), x.size(1), pooled.height, pooled.width}, x.options());
    auto winners = torch::empty(y.sizes(), torch::kInt32);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "relu_max_pool", [&] {
      const auto* from = x.const_data_ptr<scalar_t>();
      auto* to = y.mutable_data_ptr<scalar_t>();
      auto* where = winners.mutable_data_ptr<Winner>();
      for_planes(x.size(0) * x.size(1), [=](int64_t plane) {
        pool_plane(from + plane * extent.pixels(), extent, to + plane * pooled.pixels(),
                   where + plane * pooled.pixels());
      });
    });
    context->save_for_backward({winners});
    context->saved_data["height"] = extent.height;
    context->saved_data["width"] = extent.width;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto winners = context->get_saved_variables()[0];
    const auto gradient = gradients[0].contiguous();
    const Extent2 extent{context->saved_data["height"].toInt(), context->saved_data["width"].toInt()};
    const Extent2 pooled = extent.pooled();
    const bool is_odd = extent.height % 2 != 0 || extent.width % 2 != 0;
    const c10::IntArrayRef::value_type sizes[4] = {gradient.size(0), gradient.size(1), extent.height, extent.width};
    auto x_gradient = is_odd ? torch::zeros(sizes, gradient.options()) : torch::empty(sizes, gradient.options());
    AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "relu_max_pool_backward", [&] {
      const auto* from = gradient.const_data_ptr<scalar_t>();
      const auto* where = winners.const_data_ptr<Winner>();
      auto* to = x_gradient.mutable_data_ptr<scalar_t>();
      for_planes(gradient.size(0) * gradient.size(1), [=](int64_t plane) {
        unpool_plane(from + plane * pooled.pixels(), where + plane * pooled.pixels(), extent,
                     to + plane * extent.pixels());
      });
    });
    return {x_gradient};
  }
};

}  // namespace

torch::Tensor relu_max_pool(const torch::Tensor& x) {
  const bool is_real = x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64;
  if (x.device().is_cpu() && is_real && x.dim() == 4 && x.is_contiguous()) return ReluMaxPool::apply(x);
  // In this order only a quarter of the elements goes through relu. Both operations are monotonic, so the result is the
  // same.
  return torch::relu(torch::max_pool2d(x, 2));
}

}  // namespace penstock::detail
