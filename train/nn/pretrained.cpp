// Pretrained: all tensors are compared and checked for finite numbers before any of them is copied.
#include "train/nn/pretrained.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "core/number_text.h"
#include "core/text.h"
#include "train/nn/model.h"
#include "train/nn/module_names.h"
#include "train/tensor/tensor_file.h"

namespace penstock {
namespace {

std::string shape_text(const torch::Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const int64_t size : tensor.sizes()) sizes.push_back(std::to_string(size));
  return sizes.empty() ? "a scalar" : join(sizes, " x ");
}

/// The first three mismatches and the number of the others: between two architectures nearly all names differ.
std::string some_of(const std::vector<std::string>& mismatches) {
  constexpr size_t kMostNamed = 3;
  const size_t named = std::min(mismatches.size(), kMostNamed);
  const std::string text = join({mismatches.begin(), mismatches.begin() + static_cast<std::ptrdiff_t>(named)});
  const size_t others = mismatches.size() - named;
  return others == 0 ? text : concat(text, " and ", grouped(others), " more");
}

/// Throws corrupt_error that names the first element that is NaN or infinite.
void check_finite(const std::filesystem::path& path, const std::string& name, const torch::Tensor& tensor) {
  if (!tensor.is_floating_point()) return;
  const torch::Tensor is_finite = at::isfinite(tensor).flatten();
  if (is_finite.all().item<bool>()) return;
  const auto index = is_finite.to(at::kChar).argmin().item<int64_t>();
  std::vector<std::string> place;
  int64_t rest = index;
  for (int64_t axis = tensor.dim() - 1; axis >= 0; rest /= tensor.size(axis--))
    place.insert(place.begin(), std::to_string(rest % tensor.size(axis)));
  const auto count = static_cast<uint64_t>(is_finite.logical_not().sum().item<int64_t>());
  throw corrupt_error(concat(path.string(), ": tensor ", in_quotes(name), " holds ",
                             tensor.flatten()[index].item<double>(), " at [", join(place), "]",
                             count > 1 ? concat(" and ", grouped(count - 1), " more like it") : "",
                             "; expected finite weights"));
}

bool is_in_any(const std::string& name, const std::vector<std::string>& modules) {
  return std::any_of(modules.begin(), modules.end(),
                     [&](const std::string& module) { return is_inside(name, module); });
}

/// The advice to use --new-head, if only tensors of the head do not fit: then the number of classes is probably another
/// one.
std::string new_head_advice(const std::vector<std::string>& mismatches, const Model& model) {
  const auto head = head_modules(model);
  const bool is_head_alone =
      model.blocks().size() > 1 &&
      std::all_of(mismatches.begin(), mismatches.end(), [&](const std::string& text) { return is_in_any(text, head); });
  return is_head_alone ? concat(", or --new-head, which starts ", join(head), " anew") : std::string();
}

using Tensors = std::map<std::string, torch::Tensor>;

std::string prefix_of_wrapper(const Model& model, const Tensors& tensors) {
  const auto parameters = model.named_parameters();
  std::string prefix;
  const auto is_wrapped_in = [&](const std::string& longer) {
    return !tensors.empty() &&
           std::ranges::all_of(tensors, [&](const auto& item) { return item.first.starts_with(longer); }) &&
           std::ranges::none_of(parameters, [&](const auto& item) { return item.key().starts_with(longer); });
  };
  for (bool is_longer = true; is_longer;) {
    is_longer = false;
    for (const char* wrapper : {"module.", "_orig_mod.", "model."})
      if (is_wrapped_in(prefix + wrapper)) {
        prefix += wrapper;
        is_longer = true;
      }
  }
  return prefix;
}

Tensors without_prefix(const Tensors& tensors, size_t length) {
  Tensors shorter;
  for (const auto& [name, tensor] : tensors) shorter.emplace(name.substr(length), tensor);
  return shorter;
}

/// What to do about a file whose weights are not the model's.
std::string advice_of(const Tensors& file, const std::vector<std::string>& mismatches, const Model& model) {
  const bool is_checkpoint =
      std::ranges::any_of(file, [](const auto& item) { return item.first.starts_with("optimizer."); });
  if (is_checkpoint) return "expected model.safetensors of a run; this is a checkpoint, for --resume";
  std::string advice = "expected the weights of this architecture, pictures and class count";
  const auto parameters = model.named_parameters();
  const auto first = file.find(parameters.begin()->key());
  const auto& mine = parameters.begin()->value();
  const bool differ_in_channels = first != file.end() && mine.dim() == 4 && first->second.dim() == 4 &&
                                  first->second.size(0) == mine.size(0) && first->second.size(1) != mine.size(1);
  if (differ_in_channels)
    advice += concat("; these are for pictures of ", first->second.size(1), " channels, and those of --data have ",
                     mine.size(1), first->second.size(1) == 3 ? ": with rgb first in --augment, grey ones have 3" : "");
  return advice + new_head_advice(mismatches, model);
}

}  // namespace

std::string prefix_of_wrapper(const Model& model, const std::filesystem::path& path) {
  return prefix_of_wrapper(model, read_tensors(path).tensors);
}

void for_each_pretrained(const Model& model, const std::filesystem::path& path,
                         const std::vector<std::string>& left_out,
                         const std::function<void(const std::string&, const torch::Tensor&)>& use) {
  const auto file = read_tensors(path);
  auto all = without_prefix(file.tensors, prefix_of_wrapper(model, file.tensors).size());
  std::erase_if(all, [&](const auto& item) { return is_in_any(item.first, left_out); });
  auto given = all;
  NamedTensors matched;
  std::vector<std::string> mismatches;
  const auto match = [&](const std::string& name, const torch::Tensor& mine) {
    if (is_in_any(name, left_out)) return;
    const auto found = given.find(name);
    if (found == given.end()) {
      if (!name.ends_with("num_batches_tracked")) mismatches.push_back(concat(name, " is missing"));
      return;
    }
    if (found->second.sizes() != mine.sizes())
      mismatches.push_back(concat(name, " is ", shape_text(found->second), ", the model's is ", shape_text(mine)));
    else if (found->second.is_floating_point() != mine.is_floating_point())
      mismatches.push_back(concat(name, " is ", found->second.scalar_type(), ", the model's is ", mine.scalar_type()));
    matched.emplace_back(name, found->second);
    given.erase(found);
  };
  for (const auto& item : model.named_parameters()) match(item.key(), item.value());
  for (const auto& item : model.named_buffers()) match(item.key(), item.value());
  std::vector<std::string> unexpected;
  for (const auto& [name, tensor] : given) unexpected.push_back(concat(name, " is unexpected"));
  if (!mismatches.empty() || !unexpected.empty()) {
    const std::string separator = mismatches.empty() || unexpected.empty() ? "" : ", ";
    const std::string text = concat(some_of(mismatches), separator, some_of(unexpected));
    mismatches.insert(mismatches.end(), unexpected.begin(), unexpected.end());
    throw corrupt_error(concat(path.string(), ": ", text, "; ", advice_of(all, mismatches, model)));
  }
  for (const auto& [name, tensor] : all) check_finite(path, name, tensor);
  for (const auto& [name, tensor] : matched) use(name, tensor);
  file.check_read();
}

void load_pretrained(Model& model, const std::filesystem::path& path, const std::vector<std::string>& left_out) {
  at::NoGradGuard no_grad;
  const auto parameters = model.named_parameters(), buffers = model.named_buffers();
  for_each_pretrained(model, path, left_out, [&](const std::string& name, const torch::Tensor& tensor) {
    torch::Tensor mine = parameters.contains(name) ? parameters[name] : buffers[name];
    mine.copy_(tensor);
  });
}

}  // namespace penstock
