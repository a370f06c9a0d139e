// Writing named tensors into safetensors files, and reading them.
#include "train/tensor/tensor_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/files/read_from.h"
#include "loader/shards/shard.h"

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

std::string crc32c_text(std::span<const uint8_t> bytes) { return printed("%08x", crc32c(bytes)); }

/// The CRC-32C of the metadata's keys and texts, and of the tensors' names and CRC-32Cs, each in the order of the
/// names.
std::string checksum_of(const std::map<std::string, std::string>& metadata,
                        const std::map<std::string, std::string>& crcs) {
  std::string all;
  for (const auto& [key, text] : metadata)
    if (key != kChecksumKey) all += concat(key, "\n", text, "\n");
  for (const auto& [name, crc] : crcs) all += concat(name, "\n", crc, "\n");
  return crc32c_text(as_bytes(all));
}

void check_checksum(const Safetensors& file) {
  const auto found = file.metadata().find(kChecksumKey);
  if (found == file.metadata().end()) return;
  std::map<std::string, std::string> crcs;
  for (const auto& tensor : file.tensors()) crcs.emplace(tensor.name, crc32c_text(tensor.bytes));
  const std::string checksum = checksum_of(file.metadata(), crcs);
  if (checksum != found->second)
    throw corrupt_error(concat(file.path().string(), ": crc32c is ", checksum, ", its metadata say ", found->second,
                               "; expected the bytes that were written, use an earlier file"));
}

torch::Tensor tensor_of(const TensorView& view, const std::shared_ptr<const Safetensors>& file) {
  const at::ScalarType* dtype = nullptr;
  for (const auto& [name, type] : kDtypes)
    if (view.dtype == name) dtype = &type;
  if (dtype == nullptr)
    throw corrupt_error(concat(file->path().string(), ": tensor ", view.name, " is ", view.dtype,
                               "; expected one of F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL"));
  const std::vector<int64_t> sizes(view.shape.begin(), view.shape.end());
  if (view.byte_offset % dtype_bytes(view.dtype) == 0 && !view.bytes.empty())
    return torch::from_blob(
        const_cast<uint8_t*>(view.bytes.data()), sizes, [file](void*) {}, torch::dtype(*dtype));
  auto tensor = torch::empty(sizes, *dtype);
  if (!view.bytes.empty()) std::memcpy(tensor.data_ptr(), view.bytes.data(), view.bytes.size());
  return tensor;
}

std::vector<TensorView> views_of(NamedTensors tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : tensors)
    views.push_back({.name = name,
                     .dtype = dtype_name(name, tensor.scalar_type()),
                     .shape = {tensor.sizes().begin(), tensor.sizes().end()},
                     .bytes = {},
                     .byte_offset = 0});
  return views;
}

std::map<std::string, std::string> with_checksum(std::map<std::string, std::string> metadata,
                                                 const std::string& checksum) {
  metadata[kChecksumKey] = checksum;
  return metadata;
}

}  // namespace

TensorWriter::TensorWriter(const std::filesystem::path& path, NamedTensors sizes,
                           std::map<std::string, std::string> metadata)
    : metadata_(std::move(metadata)),
      file_(path, views_of(std::move(sizes)), with_checksum(metadata_, crc32c_text({}))) {}

void TensorWriter::put(const std::string& name, const torch::Tensor& tensor) {
  const auto whole = tensor.detach().cpu().contiguous();
  const std::span<const uint8_t> bytes(static_cast<const uint8_t*>(whole.const_data_ptr()), whole.nbytes());
  crcs_[name] = crc32c_text(bytes);
  file_.put(name, bytes);
}

void TensorWriter::commit() { file_.commit(with_checksum(metadata_, checksum_of(metadata_, crcs_))); }

void write_tensors(const std::filesystem::path& path, const std::map<std::string, torch::Tensor>& tensors,
                   std::map<std::string, std::string> metadata) {
  TensorWriter file(path, {tensors.begin(), tensors.end()}, std::move(metadata));
  for (const auto& [name, tensor] : tensors) file.put(name, tensor);
  file.commit();
}

TensorFile read_tensors(const std::filesystem::path& path) {
  const auto file = std::make_shared<const Safetensors>(path);
  TensorFile result{{}, file->metadata(), file};
  read_from(*file, [&] {
    check_checksum(*file);
    for (const auto& view : file->tensors()) result.tensors.emplace(view.name, tensor_of(view, file));
  });
  return result;
}

}  // namespace penstock
