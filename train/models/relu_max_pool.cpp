// ReluMaxPool: the kernels, a plane of H x W at a time.
#include "train/models/relu_max_pool.h"

#include <ATen/Parallel.h>

#include <cstdint>

namespace penstock::detail {
namespace {

constexpr uint8_t kNowhere = 4;         // the winner of a window without a positive element: relu passes no gradient
constexpr int64_t kPlanesOfATask = 16;  // about 50 us of work at 28 x 28

struct Extent2 {
  int64_t height, width;
  int64_t pixels() const { return height * width; }
  Extent2 pooled() const { return {height / 2, width / 2}; }
};

/// The later of two elements wins if it is larger or no number, as in LibTorch; so the first of equal ones does.
template <class T>
bool beats(T later, T earlier) {
  return (later > earlier) | (later != later);
}

template <class T>
void pool_plane(const T* x, Extent2 extent, T* y, uint8_t* winner) {
  const auto [height, width] = extent.pooled();
  for (int64_t i = 0; i < height; ++i) {
    const T *top = x + 2 * i * extent.width, *bottom = top + extent.width;
    for (int64_t j = 0; j < width; ++j) {
      T best = top[2 * j];
      uint8_t where = 0;
      const T others[3] = {top[2 * j + 1], bottom[2 * j], bottom[2 * j + 1]};
      for (uint8_t k = 0; k < 3; ++k) {
        const bool is_better = beats(others[k], best);
        best = is_better ? others[k] : best;
        where = is_better ? static_cast<uint8_t>(k + 1) : where;
      }
      const bool is_cut = best <= 0;
      y[i * width + j] = is_cut ? T(0) : best;
      winner[i * width + j] = is_cut ? kNowhere : where;
    }
  }
}

/// Writes the whole plane, but for the last row or column of an odd extent.
template <class T>
void unpool_plane(const T* gradient, const uint8_t* winner, Extent2 extent, T* x_gradient) {
  const auto [height, width] = extent.pooled();
  for (int64_t i = 0; i < height; ++i) {
    T *top = x_gradient + 2 * i * extent.width, *bottom = top + extent.width;
    for (int64_t j = 0; j < width; ++j) {
      const T value = gradient[i * width + j];
      const uint8_t where = winner[i * width + j];
      top[2 * j] = where == 0 ? value : T(0);
      top[2 * j + 1] = where == 1 ? value : T(0);
      bottom[2 * j] = where == 2 ? value : T(0);
      bottom[2 * j + 1] = where == 3 ? value : T(0);
    }
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
    auto winner = torch::empty(y.sizes(), torch::kUInt8);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "relu_max_pool", [&] {
      const auto* from = x.const_data_ptr<scalar_t>();
      auto* to = y.mutable_data_ptr<scalar_t>();
      auto* where = winner.mutable_data_ptr<uint8_t>();
      for_planes(x.size(0) * x.size(1), [=](int64_t plane) {
        pool_plane(from + plane * extent.pixels(), extent, to + plane * pooled.pixels(),
                   where + plane * pooled.pixels());
      });
    });
    context->save_for_backward({winner});
    context->saved_data["height"] = extent.height;
    context->saved_data["width"] = extent.width;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto winner = context->get_saved_variables()[0];
    const auto gradient = gradients[0].contiguous();
    const Extent2 extent{context->saved_data["height"].toInt(), context->saved_data["width"].toInt()};
    const Extent2 pooled = extent.pooled();
    const bool is_odd = extent.height % 2 != 0 || extent.width % 2 != 0;
    const c10::IntArrayRef::value_type sizes[4] = {gradient.size(0), gradient.size(1), extent.height, extent.width};
    auto x_gradient = is_odd ? torch::zeros(sizes, gradient.options()) : torch::empty(sizes, gradient.options());
    AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "relu_max_pool_backward", [&] {
      const auto* from = gradient.const_data_ptr<scalar_t>();
      const auto* where = winner.const_data_ptr<uint8_t>();
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
  // In this order a quarter of the elements goes through relu; both are monotonic, so the result is the same.
  return torch::relu(torch::max_pool2d(x, 2));
}

}  // namespace penstock::detail
