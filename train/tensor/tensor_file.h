// Writing named tensors into safetensors files, and reading them.
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "loader/files/safetensors.h"
#include "train/tensor/named_tensors.h"

namespace penstock {

/// The tensors of a file by name, with its string metadata.
struct TensorFile {
  std::map<std::string, torch::Tensor> tensors;
  std::map<std::string, std::string> metadata;
  std::shared_ptr<const Safetensors> file = {};

  /// After the last use of the tensors: throws io_error if they were not what the file holds, because it was cut short
  /// or the disk failed meanwhile.
  void check_read() const { file->check_read(); }
};

/// Writes a file tensor by tensor, in any order. It appears under its name when commit() has synced and renamed it, and
/// its metadata get a CRC-32C of metadata and tensors. The bytes do not depend on the order. Tensors may be on any
/// device and of dtype f64, f32, f16, bf16, i64, i32, i16, i8, u8 or bool.
/// Memory: one tensor that is not contiguous or not on the CPU. Errors: io_error; bug_error for another dtype, or as
/// SafetensorsWriter has it.
class TensorWriter {
 public:
  /// `sizes` has the name, sizes and dtype of every tensor that put() will bring; its values are not read.
  TensorWriter(const std::filesystem::path& path, NamedTensors sizes, std::map<std::string, std::string> metadata);
  void put(const std::string& name, const torch::Tensor& tensor);
  void commit();

 private:
  std::map<std::string, std::string> metadata_, crcs_;  // crcs_: by name of the tensor
  SafetensorsWriter file_;
};

/// Writes all of them by a TensorWriter.
void write_tensors(const std::filesystem::path& path, const std::map<std::string, torch::Tensor>& tensors,
                   std::map<std::string, std::string> metadata = {});

/// Opens the file, and compares the checksum if it has one. Its tensors are the mapped bytes of the file: they take no
/// memory, must not be written to, and stay valid without this. Those that are not aligned to their element size, which
/// other programs may write, are copies. Errors: io_error; corrupt_error that names the file and, where it is about
/// one, the tensor.
TensorFile read_tensors(const std::filesystem::path& path);

}  // namespace penstock
