// Pretrained: copies weights from a file into a model.
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace penstock {

class Model;

/// Copies the tensors of a safetensors file (a state dict with the names of the model's parameters, which may all begin
/// with prefix_of_wrapper()) into the model's parameters and buffers, and converts them to their dtype; floating-point
/// numbers stay floating-point and whole numbers stay whole. `num_batches_tracked` may be missing, because it is only a
/// counter. Tensors of the modules `left_out` are ignored, and these modules stay as they are.
///
/// Errors: corrupt_error that names the first three tensors that are missing, of another shape or of another kind of
/// number, and the first three that are unexpected, with the number of the others; or that names the first element that
/// is NaN or infinite. The model is then unchanged. Also io_error and corrupt_error about the file itself.
///
/// Memory: the file is mapped, and takes none.
void load_pretrained(Model& model, const std::filesystem::path& path, const std::vector<std::string>& left_out = {});

/// The same for a model that is not here as a whole: `use` gets those tensors one by one, valid as long as it runs.
/// Only names, sizes and dtypes of `model` count. Nothing is used if the file does not fit.
void for_each_pretrained(const Model& model, const std::filesystem::path& path,
                         const std::vector<std::string>& left_out,
                         const std::function<void(const std::string& name, const torch::Tensor& tensor)>& use);

/// What all names in the file begin with, because the model was saved inside of others: `module.` (DataParallel),
/// `_orig_mod.` (torch.compile), `model.`, or several of them. "" where they do not, or where the model's own do.
std::string prefix_of_wrapper(const Model& model, const std::filesystem::path& path);

}  // namespace penstock
