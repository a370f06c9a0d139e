// WeightStream: the initial weights of a model one tensor at a time, for ranks that hold a part of it.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <set>
#include <string>

namespace penstock {

/// As long as this lives, a model that this thread makes gives each parameter and buffer away as soon as it has its
/// initial value. The tensor then has no memory any more; its name and sizes stay.
///
/// Memory: one layer, if the model's constructor calls drawn() and its neighbours below. A model that does not, such as
/// one of a plug-in, is whole until finish().
/// Thread-safety: one at a time per thread.
class WeightStream {
 public:
  using Use = std::function<void(const std::string& name, const torch::Tensor& tensor)>;
  /// `use` has each name once, in any order, with a tensor that is valid as long as it runs.
  explicit WeightStream(Use use);
  ~WeightStream();
  WeightStream(const WeightStream&) = delete;
  WeightStream& operator=(const WeightStream&) = delete;

  void give(const std::string& name, const torch::Tensor& tensor);
  /// Gives away what the constructor of `model` has not. Buffers may have several names (make_model_of() refuses
  /// parameters that have).
  void finish(const torch::nn::Module& model);

 private:
  void give_once(const std::string& name, const torch::Tensor& tensor);

  Use use_;
  std::set<std::string> given_;  // names
};

namespace detail {

// For constructors of models. Where there is no WeightStream, draw() calls `fill`, and the others do nothing.

/// The tensors of the module with this path have their initial values.
void drawn(const std::string& path, const torch::nn::Module& module);
/// This tensor gets its initial value by draw(), and what it has now is never read.
void draws_later(const torch::Tensor& tensor);
void draw(const std::string& name, const torch::Tensor& tensor, const std::function<void(torch::Tensor)>& fill);

/// A fill with normal numbers of mean 0 that are not beyond 2, as torch.nn.init.trunc_normal_(std=deviation).
std::function<void(torch::Tensor)> truncated_normal(double deviation);

}  // namespace detail
}  // namespace penstock
