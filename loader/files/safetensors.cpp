// Safetensors: reads files without trusting them, and writes them.
#include "loader/files/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/strict_json.h"
#include "core/text.h"
#include "loader/files/read_from.h"

namespace penstock {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the Python package
constexpr int kMaxHeaderDepth = 3;                 // nested levels: header, tensor, shape
constexpr size_t kDataAlignment = 64;              // of the data in a file
constexpr const char* kMetadataKey = "__metadata__";

/// The number of bytes of a tensor. Nothing when it does not fit 64 bits or when the dtype is unknown.
std::optional<uint64_t> tensor_bytes(const std::string& dtype, const std::vector<uint64_t>& shape) {
  uint64_t product = dtype_bytes(dtype);
  if (product == 0) return {};
  bool is_empty = false;
  for (const uint64_t dimension : shape) {
    is_empty |= dimension == 0;
    if (__builtin_mul_overflow(product, std::max<uint64_t>(dimension, 1), &product)) return {};
  }
  return is_empty ? 0 : product;
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::vector<std::string> parts;
  for (const uint64_t size : shape) parts.push_back(size == Safetensors::kAny ? "any" : std::to_string(size));
  return concat("[", join(parts), "]");
}

std::vector<uint64_t> unsigned_list(const nlohmann::json& tensor, const char* key, const std::string& where) {
  const auto found = tensor.find(key);
  if (found == tensor.end() || !found->is_array())
    throw corrupt_error(concat(where, ": no list ", in_quotes(key), "; expected dtype, shape and data_offsets"));
  std::vector<uint64_t> values;
  for (const auto& value : *found) {
    if (!value.is_number_unsigned())
      throw corrupt_error(
          concat(where, ": ", key, " holds ", shortened(value.dump()), "; expected whole numbers from 0"));
    values.push_back(value.get<uint64_t>());
  }
  return values;
}

/// Parses one entry of the header. `data` is everything after the header; it begins at byte `data_offset` of the file.
TensorView parse_tensor(const std::string& name, const nlohmann::json& entry, std::span<const uint8_t> data,
                        uint64_t data_offset, const std::string& file) {
  const std::string where = concat(file, ": tensor ", in_quotes(name));
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string())
    throw corrupt_error(concat(where, ": is ", shortened(entry.dump()), "; expected dtype, shape and data_offsets"));
  TensorView tensor{name, entry["dtype"].get<std::string>(), unsigned_list(entry, "shape", where), {}, 0};
  const auto offsets = unsigned_list(entry, "data_offsets", where);
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data.size()) {
    throw corrupt_error(concat(where, ": data_offsets are ", shortened(entry["data_offsets"].dump()),
                               "; expected begin and end within the ", data.size(), " bytes of data"));
  }
  if (dtype_bytes(tensor.dtype) == 0)
    throw corrupt_error(
        concat(where, ": dtype is ", in_quotes(tensor.dtype), "; expected one of the safetensors format"));
  const auto expected = tensor_bytes(tensor.dtype, tensor.shape);
  if (expected != offsets[1] - offsets[0]) {
    throw corrupt_error(concat(where, ": holds ", offsets[1] - offsets[0], " bytes; expected ",
                               expected ? std::to_string(*expected) : "more than a file can hold", " for ",
                               tensor.dtype, " ", shape_text(tensor.shape)));
  }
  tensor.bytes = data.subspan(offsets[0], offsets[1] - offsets[0]);
  tensor.byte_offset = data_offset + offsets[0];
  return tensor;
}

/// Checks that the tensors, which are sorted by offset, cover the data exactly once and without a hole, as the format
/// demands.
void check_coverage(const std::vector<TensorView>& tensors, uint64_t data_offset, uint64_t data_size,
                    const std::string& file) {
  uint64_t end = data_offset;
  for (const auto& tensor : tensors) {
    if (tensor.byte_offset != end) {
      throw corrupt_error(concat(file, ": tensor ", in_quotes(tensor.name), " begins at byte ", tensor.byte_offset,
                                 tensor.byte_offset < end ? ", inside the tensor before it" : ", after a hole",
                                 "; expected byte ", end));
    }
    end += tensor.bytes.size();
  }
  if (end != data_offset + data_size)
    throw corrupt_error(
        concat(file, ": tensors end at byte ", end, "; expected the end of the file, ", data_offset + data_size));
}

}  // namespace

struct Safetensors::File {
  std::filesystem::path path;
  std::unique_ptr<const FileMap> map;
  std::vector<TensorView> tensors;
  std::map<std::string, std::string> metadata;

  explicit File(std::unique_ptr<const FileMap> bytes) : File{bytes->path(), std::move(bytes)} {}
  File(const std::filesystem::path& file, std::unique_ptr<const FileMap> bytes) : path(file), map(std::move(bytes)) {
    const FileHold hold(*map);
    read_from(*map, [this] { parse(); });
  }
  void parse();
  void parse_metadata(const nlohmann::json& entry);
};

void Safetensors::File::parse_metadata(const nlohmann::json& entry) {
  if (!entry.is_object())
    throw corrupt_error(concat(path.string(), ": __metadata__ is no object; expected texts by name"));
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string())
      throw corrupt_error(concat(path.string(), ": __metadata__ ", in_quotes(key), " is ", shortened(value.dump()),
                                 "; expected a text"));
    metadata.emplace(key, value.get<std::string>());
  }
}

void Safetensors::File::parse() {
  const auto bytes = map->bytes();
  const std::string file = path.string();
  if (bytes.size() < kLengthBytes)
    throw corrupt_error(concat(file, ": ", bytes.size(), " bytes long; expected a safetensors file of at least 10"));
  constexpr std::array<uint8_t, 4> kZip{'P', 'K', 3, 4};
  if (std::equal(kZip.begin(), kZip.end(), bytes.begin()))
    throw corrupt_error(concat(file, ": a ZIP file, as torch.save() writes; expected a safetensors file, as ",
                               "safetensors.torch.save_file(state_dict, FILE) writes"));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > bytes.size() - kLengthBytes || length > kMaxHeaderBytes) {
    throw corrupt_error(concat(file, ": header of ", length, " bytes in a file of ", bytes.size(),
                               "; expected it inside the file and at most ", kMaxHeaderBytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  const auto header = detail::parse_strict_json(text, file, kMaxHeaderDepth);
  if (!header.is_object() || text.front() != '{')
    throw corrupt_error(
        concat(file, ": header begins with ", in_quotes(text.substr(0, 1)), "; expected a JSON object"));
  const uint64_t data_offset = kLengthBytes + length;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadataKey)
      parse_metadata(entry);
    else
      tensors.push_back(parse_tensor(name, entry, bytes.subspan(data_offset), data_offset, file));
  }
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.byte_offset, a.bytes.size()) < std::pair(b.byte_offset, b.bytes.size());
  });
  check_coverage(tensors, data_offset, bytes.size() - data_offset, file);
}

Safetensors::Safetensors(const std::filesystem::path& path)
    : file_(std::make_unique<const File>(path, files_of(path).open(path)->map())) {}
Safetensors::Safetensors(const std::filesystem::path& path, const FileFacts& facts)
    : file_(std::make_unique<const File>(path, files_of(path).map(path, facts))) {}
Safetensors::Safetensors(std::unique_ptr<const FileMap> map) : file_(std::make_unique<const File>(std::move(map))) {}
Safetensors::~Safetensors() = default;
Safetensors::Safetensors(Safetensors&&) noexcept = default;
Safetensors& Safetensors::operator=(Safetensors&&) noexcept = default;

const std::filesystem::path& Safetensors::path() const { return file_->path; }
uint64_t Safetensors::byte_count() const { return file_->map->bytes().size(); }
const std::vector<TensorView>& Safetensors::tensors() const { return file_->tensors; }
const std::map<std::string, std::string>& Safetensors::metadata() const { return file_->metadata; }

void Safetensors::check_read(std::span<const uint8_t> used, const std::string& where) const {
  file_->map->check_read(used, where);
}
void Safetensors::check_read() const { file_->map->check_read(); }
void Safetensors::check_file(std::span<const uint8_t> used, const std::string& where) const {
  file_->map->check_file(used, where);
}
void Safetensors::check_file() const { file_->map->check_file(); }
void Safetensors::read_ahead() const { file_->map->read_ahead(); }
void Safetensors::drop() const { file_->map->drop(); }
FileHold Safetensors::hold() const { return FileHold(*file_->map); }
bool Safetensors::needs_hold() const { return file_->map->needs_hold(); }

const TensorView* Safetensors::find(const std::string& name) const {
  for (const auto& tensor : file_->tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

const TensorView& Safetensors::get(const std::string& name, const std::string& dtype,
                                   const std::vector<uint64_t>& shape) const {
  const auto* tensor = find(name);
  const std::string expected = concat("; expected ", dtype, " ", shape_text(shape));
  if (!tensor) throw corrupt_error(concat(path().string(), ": no tensor ", in_quotes(name), expected));
  bool fits = tensor->dtype == dtype && tensor->shape.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i] == kAny || shape[i] == tensor->shape[i];
  if (!fits) {
    throw corrupt_error(concat(path().string(), ": tensor ", in_quotes(name), " is ", tensor->dtype, " ",
                               shape_text(tensor->shape), expected));
  }
  return *tensor;
}

size_t dtype_bytes(const std::string& dtype) {
  static const std::map<std::string, size_t> kBytes{{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
                                                    {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
                                                    {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8}};
  const auto found = kBytes.find(dtype);
  return found == kBytes.end() ? 0 : found->second;
}

std::string safetensors_header(std::span<const TensorView> tensors, const std::map<std::string, std::string>& metadata,
                               size_t alignment) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    const auto size = tensor_bytes(tensor.dtype, tensor.shape);
    if (!size || header.contains(tensor.name))
      throw bug_error(concat("tensor ", in_quotes(tensor.name), ": ", tensor.dtype, " ", shape_text(tensor.shape),
                             " cannot be written; expected a known dtype and a name that occurs once"));
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + *size}}};
    offset += *size;
  }
  std::string text = header.dump();
  text.append((alignment - (kLengthBytes + text.size()) % alignment) % alignment, ' ');
  std::string length(kLengthBytes, '\0');
  const uint64_t count = text.size();
  std::memcpy(length.data(), &count, kLengthBytes);
  return length + text;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorView> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path), tensors_(std::move(tensors)) {
  std::stable_sort(tensors_.begin(), tensors_.end(),
                   [](const auto& a, const auto& b) { return dtype_bytes(a.dtype) > dtype_bytes(b.dtype); });
  header_bytes_ = safetensors_header(tensors_, metadata, kDataAlignment).size();
  uint64_t offset = header_bytes_;
  for (const auto& tensor : tensors_) {
    const auto byte_count = tensor_bytes(tensor.dtype, tensor.shape);
    if (!byte_count)
      throw bug_error(concat(path_.string(), ": tensor ", in_quotes(tensor.name), " is ", tensor.dtype, " of ",
                             tensor.shape.size(), " dimensions; expected a known dtype and a size below 2^64 bytes"));
    entries_[tensor.name] = {.offset = offset, .byte_count = *byte_count};
    offset += *byte_count;
  }
  file_ = std::make_unique<AtomicFile>(path);
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::put(const std::string& name, std::span<const uint8_t> bytes) {
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second.byte_count != bytes.size() || found->second.is_put)
    throw bug_error(concat(path_.string(), ": tensor ", in_quotes(name), " has ", bytes.size(), " bytes; expected ",
                           found == entries_.end() ? "no such tensor" : std::to_string(found->second.byte_count),
                           ", once"));
  file_->overwrite(found->second.offset, bytes);
  found->second.is_put = true;
}

void SafetensorsWriter::commit(const std::map<std::string, std::string>& metadata) {
  for (const auto& [name, entry] : entries_)
    if (!entry.is_put) {
      throw bug_error(
          concat(path_.string(), ": tensor ", in_quotes(name), " was not written; expected put() for each tensor"));
    }
  const std::string header = safetensors_header(tensors_, metadata, kDataAlignment);
  if (header.size() != header_bytes_)
    throw bug_error(concat(path_.string(), ": a header of ", header.size(), " bytes; expected ", header_bytes_));
  file_->overwrite(0, header);
  file_->commit();
}

void write_safetensors(const std::filesystem::path& path, std::vector<TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  SafetensorsWriter file(path, tensors, metadata);
  for (const auto& tensor : tensors) file.put(tensor.name, tensor.bytes);
  file.commit(metadata);
}

}  // namespace penstock
