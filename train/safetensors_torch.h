// Named tensors to safetensors files and back.
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>

namespace penstock {

/// Tensors by name, with the file's string metadata.
struct NamedTensors {
  std::map<std::string, torch::Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Writes aside, syncs, renames; adds a CRC-32C of metadata and tensors to the metadata. Tensors of any device; f64,
/// f32, f16, bf16, i64, i32, i16, i8, u8, bool. Errors: io_error; bug_error for another dtype.
void write_tensors(const std::filesystem::path& path, const std::map<std::string, torch::Tensor>& tensors,
                   std::map<std::string, std::string> metadata = {});

/// Copies on the CPU; the checksum is compared where the file has one. Errors: io_error, corrupt_error naming file and
/// tensor.
NamedTensors read_tensors(const std::filesystem::path& path);

}  // namespace penstock
