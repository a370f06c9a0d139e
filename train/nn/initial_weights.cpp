// WeightStream: gives away, and gives memory back.
#include "train/nn/initial_weights.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "train/tensor/storage.h"

namespace penstock {
namespace {

thread_local WeightStream* current_stream = nullptr;

template <class Use>
void for_each_tensor(const torch::nn::Module& module, const Use& use) {
  for (const auto& item : module.named_parameters()) use(item.key(), item.value());
  for (const auto& item : module.named_buffers()) use(item.key(), item.value());
}

}  // namespace

WeightStream::WeightStream(Use use) : use_(std::move(use)) {
  if (current_stream != nullptr) throw bug_error("two weight streams of one thread; expected one");
  current_stream = this;
}

WeightStream::~WeightStream() { current_stream = nullptr; }

void WeightStream::give(const std::string& name, const torch::Tensor& tensor) {
  give_once(name, tensor);
  detail::release_memory(tensor);
}

void WeightStream::give_once(const std::string& name, const torch::Tensor& tensor) {
  if (!given_.insert(name).second) return;
  if (tensor.numel() > 0 && tensor.storage().nbytes() == 0)
    throw bug_error(concat("tensor ", name, " has no memory; expected draw() for it, and no other name"));
  use_(name, tensor.detach());
}

void WeightStream::finish(const torch::nn::Module& model) {
  for_each_tensor(model, [this](const std::string& name, const torch::Tensor& tensor) { give_once(name, tensor); });
  // After all were given: a buffer may have several names.
  for_each_tensor(model, [](const std::string&, const torch::Tensor& tensor) { detail::release_memory(tensor); });
}

namespace detail {

void drawn(const std::string& path, const torch::nn::Module& module) {
  if (current_stream == nullptr) return;
  for_each_tensor(module, [&](const std::string& name, const torch::Tensor& tensor) {
    current_stream->give(concat(path, ".", name), tensor);
  });
}

void draws_later(const torch::Tensor& tensor) {
  if (current_stream != nullptr) release_memory(tensor);
}

void draw(const std::string& name, const torch::Tensor& tensor, const std::function<void(torch::Tensor)>& fill) {
  if (current_stream != nullptr) take_memory(tensor);
  fill(tensor);
  if (current_stream != nullptr) current_stream->give(name, tensor);
}

std::function<void(torch::Tensor)> truncated_normal(double deviation) {
  return [deviation](torch::Tensor tensor) {
    const at::NoGradGuard no_grad;
    constexpr double kMost = 2;
    const double inside = std::erf(kMost / deviation / std::numbers::sqrt2);  // the share that is not cut off
    tensor.uniform_(-inside, inside).erfinv_().mul_(deviation * std::numbers::sqrt2).clamp_(-kMost, kMost);
  };
}

}  // namespace detail
}  // namespace penstock
