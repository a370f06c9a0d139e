// Pretrained: weights from a file into a model.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

class Model;

/// Copies the tensors of a safetensors file (a state dict with torchvision's names, no prefix) into the model's
/// parameters and buffers, converting to their dtype (of floating-point numbers, or of whole ones).
/// `num_batches_tracked` may be absent: it counts, nothing is computed from it. What the file says of the modules
/// `left_out` is ignored, and they stay as they are. Throws corrupt_error naming the first three tensors that are
/// missing, unexpected, of another shape or kind of number and the number of the others, or the first element that is
/// NaN or infinite; the model is then unchanged. io_error and corrupt_error of the file itself.
void load_pretrained(Model& model, const std::filesystem::path& path, const std::vector<std::string>& left_out = {});

}  // namespace penstock
