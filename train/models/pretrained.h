// Pretrained: copies weights from a file into a model.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

class Model;

/// Copies the tensors of a safetensors file (a state dict with the names of the model's parameters, without a prefix)
/// into the model's parameters and buffers, and converts them to their dtype; floating-point numbers stay
/// floating-point and whole numbers stay whole. `num_batches_tracked` may be missing, because it is only a counter.
/// Tensors of the modules `left_out` are ignored, and these modules stay as they are.
///
/// Errors: corrupt_error that names the first three tensors that are missing, unexpected, of another shape or of
/// another kind of number, with the number of the others; or that names the first element that is NaN or infinite. The
/// model is then unchanged. Also io_error and corrupt_error about the file itself.
void load_pretrained(Model& model, const std::filesystem::path& path, const std::vector<std::string>& left_out = {});

}  // namespace penstock
