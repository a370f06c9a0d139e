// Writing named tensors into safetensors files, and reading them.
#include "train/safetensors_torch.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "loader/read_from.h"
#include "loader/safetensors.h"
#include "loader/shard.h"

namespace penstock {
namespace {

constexpr std::array<std::pair<const char*, at::ScalarType>, 10> kDtypes{{{"F64", at::kDouble},
                                                                          {"F32", at::kFloat},
                                                                          {"F16", at::kHalf},
                                                                          {"BF16", at::kBFloat16},
                                                                          {"I64", at::kLong},
                                                                          {"I32", at::kInt},
                                                                          {"I16", at::kShort},
                                                                          {"I8", at::kChar},
                                                                          {"U8", at::kByte},
                                                                          {"BOOL", at::kBool}}};

const char* dtype_name(const std::string& tensor, at::ScalarType dtype) {
  for (const auto& [name, type] : kDtypes)
    if (type == dtype) return name;
  throw bug_error(concat("safetensors: tensor ", tensor, " is ", at::toString(dtype),
                         "; expected a dtype of the safetensors format"));
}

constexpr const char* kChecksumKey = "penstock.crc32c";

std::string crc32c_text(std::span<const uint8_t> bytes) {
  char hex[9];
  std::snprintf(hex, sizeof(hex), "%08x", crc32c(bytes));
  return hex;
}

/// The CRC-32C of the metadata's keys and texts, and of the tensors' names and CRC-32Cs, each in the order of the
/// names.
std::string checksum_of(const std::map<std::string, std::string>& metadata, std::span<const TensorView> tensors) {
  std::map<std::string, std::string> crcs;
  for (const auto& tensor : tensors) crcs.emplace(tensor.name, crc32c_text(tensor.bytes));
  std::string all;
  for (const auto& [key, text] : metadata)
    if (key != kChecksumKey) all += concat(key, "\n", text, "\n");
  for (const auto& [name, crc] : crcs) all += concat(name, "\n", crc, "\n");
  return crc32c_text({reinterpret_cast<const uint8_t*>(all.data()), all.size()});
}

void check_checksum(const Safetensors& file) {
  const auto found = file.metadata().find(kChecksumKey);
  if (found == file.metadata().end()) return;
  const std::string checksum = checksum_of(file.metadata(), file.tensors());
  if (checksum != found->second)
    throw corrupt_error(concat(file.path().string(), ": crc32c is ", checksum, ", its metadata say ", found->second,
                               "; expected the bytes that were written, use an earlier file"));
}

torch::Tensor copy_of(const TensorView& view, const std::filesystem::path& path) {
  const at::ScalarType* dtype = nullptr;
  for (const auto& [name, type] : kDtypes)
    if (view.dtype == name) dtype = &type;
  if (dtype == nullptr)
    throw corrupt_error(concat(path.string(), ": tensor ", view.name, " is ", view.dtype,
                               "; expected one of F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL"));
  auto tensor = torch::empty(std::vector<int64_t>(view.shape.begin(), view.shape.end()), *dtype);
  if (!view.bytes.empty()) std::memcpy(tensor.data_ptr(), view.bytes.data(), view.bytes.size());
  return tensor;
}

}  // namespace

void write_tensors(const std::filesystem::path& path, const std::map<std::string, torch::Tensor>& tensors,
                   std::map<std::string, std::string> metadata) {
  std::vector<torch::Tensor> held;
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    const auto& whole = held.emplace_back(tensor.detach().cpu().contiguous());
    views.push_back({.name = name,
                     .dtype = dtype_name(name, whole.scalar_type()),
                     .shape = {whole.sizes().begin(), whole.sizes().end()},
                     .bytes = {static_cast<const uint8_t*>(whole.data_ptr()), whole.nbytes()},
                     .byte_offset = 0});
  }
  metadata[kChecksumKey] = checksum_of(metadata, views);
  write_safetensors(path, std::move(views), metadata);
}

NamedTensors read_tensors(const std::filesystem::path& path) {
  const Safetensors file(path);
  NamedTensors result{{}, file.metadata()};
  read_from(file, [&] {
    check_checksum(file);
    for (const auto& view : file.tensors()) result.tensors.emplace(view.name, copy_of(view, path));
  });
  return result;
}

}  // namespace penstock
