// Safetensors: named tensors in one file, read through a memory map and written in one go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace penstock {

/// One tensor of a safetensors file, row-major, little-endian.
struct TensorView {
  std::string name;
  std::string dtype;               // as the format spells it: "U8", "I64", "F32", "BF16", ...
  std::vector<uint64_t> shape;     // empty for a scalar
  std::span<const uint8_t> bytes;  // element size times the product of the shape
  uint64_t byte_offset = 0;        // in the file; only read
};

/// Bytes of one element; 0 for a dtype that the format does not have.
size_t dtype_bytes(const std::string& dtype);

/// A mapped safetensors file (the format: u64 header length, JSON header, data; docs/FORMAT.md).
///
/// Errors: io_error for an unreadable file. corrupt_error naming file, tensor and value for whatever the format
/// forbids: a header longer than the file or than 100 MB, no JSON, nesting, a key that stands twice, an unknown dtype,
/// a shape whose size overflows or disagrees with its bytes, tensors that overlap, leave a hole or end outside of the
/// file. Memory: the map. Views are valid as long as this object lives. Thread-safety: immutable after construction.
///
/// A part of the file that cannot be read when it is touched (cut short meanwhile, a disk error) reads as zeros: use
/// what views show inside read_from(), or ask check_read() afterwards.
class Safetensors {
 public:
  explicit Safetensors(const std::filesystem::path& path);
  ~Safetensors();
  Safetensors(Safetensors&&) noexcept;
  Safetensors& operator=(Safetensors&&) noexcept;

  const std::filesystem::path& path() const;
  const std::vector<TensorView>& tensors() const;  ///< In the order of their bytes.
  const TensorView* find(const std::string& name) const;
  /// Throws corrupt_error for a tensor that is missing or of another dtype or shape; a dimension of kAny fits every
  /// size.
  const TensorView& get(const std::string& name, const std::string& dtype, const std::vector<uint64_t>& shape) const;
  const std::map<std::string, std::string>& metadata() const;  ///< `__metadata__`.

  /// Throws io_error `<where>: <what happened to the file>` when `used`, a part of a view that was read before, could
  /// not be read. Without arguments: any part of the file.
  void check_read(std::span<const uint8_t> used, const std::string& where) const;
  void check_read() const;
  /// The same, and asks the file system whether the file still has all of it.
  void check_file(std::span<const uint8_t> used, const std::string& where) const;
  void check_file() const;

  static constexpr uint64_t kAny = ~uint64_t{0};

 private:
  struct File;
  std::unique_ptr<const File> file_;
};

/// The 8 length bytes and the JSON of a file whose data hold `tensors` in this order, back to back, padded with spaces
/// to a multiple of `alignment`. Of the views, name, dtype and shape count; the bytes are not looked at.
std::string safetensors_header(std::span<const TensorView> tensors, const std::map<std::string, std::string>& metadata,
                               size_t alignment);

/// Writes PATH (aside, synced, renamed). Tensors go by descending element size, otherwise in the order given, so that
/// each one is aligned to its element; the data begin at a multiple of 64 bytes. Errors: io_error; bug_error for a view
/// whose bytes are not what dtype and shape say.
void write_safetensors(const std::filesystem::path& path, std::vector<TensorView> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace penstock
