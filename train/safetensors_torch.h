// Writing named tensors into safetensors files, and reading them.
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

/// Writes the file under another name, syncs and renames it, and adds a CRC-32C of metadata and tensors to the
/// metadata. Tensors may be on any device and of dtype f64, f32, f16, bf16, i64, i32, i16, i8, u8 or bool. Errors:
/// io_error; bug_error for another dtype.
void write_tensors(const std::filesystem::path& path, const std::map<std::string, torch::Tensor>& tensors,
                   std::map<std::string, std::string> metadata = {});

/// Reads copies on the CPU, and compares the checksum if the file has one. Errors: io_error; corrupt_error that names
/// the file and, where it is about one, the tensor.
NamedTensors read_tensors(const std::filesystem::path& path);

}  // namespace penstock
