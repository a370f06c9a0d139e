// Safetensors: named tensors in one file, which is mapped from any kind of files and written locally, at once.
//
// Lives here: files as bytes, whatever they hold: plug-ins for the places that they come from (files.h), safetensors,
// memory maps and their faults, JSON and EXIF that are not trusted, checksums, and Sample, which the folders above hand
// to each other.
// Not here: what the tensors of a shard mean (loader/shards), and pixels (loader/jpeg, loader/codecs).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "loader/files/files.h"

namespace penstock {

class AtomicFile;

/// A view of one tensor of a safetensors file: row-major, little-endian.
struct TensorView {
  std::string name;
  std::string dtype;               // as the format spells it: "U8", "I64", "F32", "BF16", ...
  std::vector<uint64_t> shape;     // empty for a scalar
  std::span<const uint8_t> bytes;  // as many as the element size times the product of the shape
  uint64_t byte_offset = 0;        // position in the file; set by reading, ignored by writing
};

/// The number of bytes of one element; 0 for a dtype that the format does not have.
size_t dtype_bytes(const std::string& dtype);

/// A memory-mapped safetensors file. The format is a u64 with the length of the header, a JSON header, and the data
/// (docs/FORMAT.md).
///
/// Errors: io_error for an unreadable file. corrupt_error, which names file, tensor and value, for everything that the
/// format forbids: a header longer than the file or than 100 MB, a header that is not JSON or is nested too deeply, a
/// duplicate key, an unknown dtype, a shape whose size overflows or disagrees with its bytes, and tensors that overlap,
/// leave a hole or end outside of the file.
/// Memory: the map. Views are valid as long as this object lives.
/// Thread-safety: immutable after construction.
///
/// A part of the file that cannot be read at the time of its use (the file was cut short, or a disk error) reads as
/// zeros. Use the views inside of read_from(), or call check_read() after using them.
class Safetensors {
 public:
  explicit Safetensors(const std::filesystem::path& path);
  /// A file of which this is known before it is opened.
  Safetensors(const std::filesystem::path& path, const FileFacts& facts);
  /// One whose bytes are there.
  explicit Safetensors(std::unique_ptr<const FileMap> map);
  ~Safetensors();
  Safetensors(Safetensors&&) noexcept;
  Safetensors& operator=(Safetensors&&) noexcept;

  const std::filesystem::path& path() const;
  uint64_t byte_count() const;                     ///< The length of the file.
  const std::vector<TensorView>& tensors() const;  ///< Sorted by their position in the file.
  const TensorView* find(const std::string& name) const;
  /// Throws corrupt_error when the tensor is missing or has another dtype or shape. A dimension of kAny stands for
  /// every size.
  const TensorView& get(const std::string& name, const std::string& dtype, const std::vector<uint64_t>& shape) const;
  const std::map<std::string, std::string>& metadata() const;  ///< The texts of the header's `__metadata__`.

  /// Throws io_error `<where>: <what happened to the file>` when `used`, a part of a view that was read before, could
  /// not be read. Without arguments it checks every part of the file that was read.
  void check_read(std::span<const uint8_t> used, const std::string& where) const;
  void check_read() const;
  /// As check_read(), and also asks the file system whether the file still has its full length.
  void check_file(std::span<const uint8_t> used, const std::string& where) const;
  void check_file() const;
  void read_ahead() const;  ///< As FileMap has these two.
  void drop() const;

  /// Keeps the views readable, where files come and go (FileMap::needs_hold()).
  FileHold hold() const;
  bool needs_hold() const;

  static constexpr uint64_t kAny = ~uint64_t{0};

 private:
  struct File;
  std::unique_ptr<const File> file_;
};

/// The 8 length bytes and the JSON header for a file whose data are `tensors` in this order, back to back. Spaces pad
/// the result to a multiple of `alignment` bytes. Only the name, dtype and shape of each view are used, not its bytes.
std::string safetensors_header(std::span<const TensorView> tensors, const std::map<std::string, std::string>& metadata,
                               size_t alignment);

/// Writes a file tensor by tensor, in any order. Tensors lie in it by descending element size, otherwise in the order
/// given, so that each one is aligned to its element size. The data begin at a multiple of 64 bytes. The file is
/// written under a temporary name; commit() syncs and renames it, and without it no file is left. Memory: the names.
/// Errors: io_error; bug_error for a tensor that is put twice, or whose number of bytes disagrees with its dtype and
/// shape, and for one that is not put. Thread-safety: none.
class SafetensorsWriter {
 public:
  /// Names, dtypes and shapes of `tensors` are used, not their bytes. `metadata`: as commit() will have it, where texts
  /// of the same length may stand for others.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorView> tensors,
                    const std::map<std::string, std::string>& metadata);
  ~SafetensorsWriter();

  void put(const std::string& name, std::span<const uint8_t> bytes);
  void commit(const std::map<std::string, std::string>& metadata);

 private:
  struct Entry {
    uint64_t offset, byte_count;  // in the file
    bool is_put = false;
  };

  std::filesystem::path path_;
  std::vector<TensorView> tensors_;  // in the order of the file
  uint64_t header_bytes_;
  std::map<std::string, Entry> entries_;  // by name
  std::unique_ptr<AtomicFile> file_;
};

/// Writes the file `path` by a SafetensorsWriter.
void write_safetensors(const std::filesystem::path& path, std::vector<TensorView> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace penstock
