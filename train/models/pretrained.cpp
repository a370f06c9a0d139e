// Pretrained: every mismatch is found before anything is copied.
#include "train/models/pretrained.h"

#include "core/text.h"
#include "train/models/model.h"
#include "train/safetensors_torch.h"

namespace penstock {
namespace {

std::string shape_text(const torch::Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const int64_t size : tensor.sizes()) sizes.push_back(std::to_string(size));
  return sizes.empty() ? "a scalar" : join(sizes, " x ");
}

}  // namespace

void load_pretrained(Model& model, const std::filesystem::path& path) {
  auto given = read_tensors(path).tensors;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> copies;
  std::vector<std::string> mismatches;
  const auto match = [&](const std::string& name, const torch::Tensor& mine) {
    const auto found = given.find(name);
    if (found == given.end()) {
      if (!name.ends_with("num_batches_tracked")) mismatches.push_back(concat(name, " is missing"));
      return;
    }
    if (found->second.sizes() != mine.sizes())
      mismatches.push_back(concat(name, " is ", shape_text(found->second), ", the model's is ", shape_text(mine)));
    else if (found->second.is_floating_point() != mine.is_floating_point())
      mismatches.push_back(concat(name, " is ", found->second.scalar_type(), ", the model's is ", mine.scalar_type()));
    copies.emplace_back(mine, found->second);
    given.erase(found);
  };
  for (const auto& item : model.named_parameters()) match(item.key(), item.value());
  for (const auto& item : model.named_buffers()) match(item.key(), item.value());
  for (const auto& [name, tensor] : given) mismatches.push_back(concat(name, " is unexpected"));
  if (!mismatches.empty())
    throw corrupt_error(concat(path.string(), ": ", join(mismatches),
                               "; expected the weights of this architecture, pictures and class count"));
  at::NoGradGuard no_grad;
  for (auto& [mine, theirs] : copies) mine.copy_(theirs);
}

}  // namespace penstock
