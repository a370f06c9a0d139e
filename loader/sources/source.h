// Source: the plug-in that reads a foreign data set at pack time.
//
// Lives here: plug-ins that read data sets in foreign formats, one file per format, when they are packed.
// Not here: packing (loader/pack). Training and loaders never read a source.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/registry.h"
#include "loader/files/field.h"
#include "loader/shards/shard.h"

namespace penstock {

/// A sample of a foreign data set.
struct SourceSample {
  std::vector<uint8_t> bytes;  // raw H x W x C, or the file as it is
  Encoding encoding = Encoding::kRaw;
  Extent extent;                        // of the decoded picture
  std::vector<FieldValue> fields = {};  // one per Source::fields(), in its order
  bool is_converted = false;  // the file has another format (WebP, TIFF, ...); `bytes` is a PNG with the same pixels
  uint8_t turned_by = 1;      // of raw pixels: the orientation of the file, by which they have been turned upright
  Annotated annotated = {};   // the raster that fields are in pixels of, as far as the source knows
};

/// The files that a source has left out, because they are not pictures or are in a place where none are expected.
struct IgnoredFiles {
  static constexpr size_t kMostNamed = 5;
  uint64_t count = 0;
  std::vector<std::string> first;  // names of the first kMostNamed

  void add(const std::string& name);
  /// "2 files ignored (no pictures, or outside of class folders): a/b.txt, c"; "" where there are none.
  std::string text() const;
};

/// Random access to a foreign data set; sample i has id i.
/// Errors: the factory throws config_error, io_error or corrupt_error, which names the file; so does read().
/// Thread-safety: const members may be called from many threads.
class Source {
 public:
  virtual ~Source() = default;
  virtual uint64_t size() const = 0;
  /// Empty: samples have no class, and label() is not asked for.
  virtual std::vector<std::string> class_names() const = 0;
  virtual int64_t label(uint64_t index) const = 0;
  virtual SourceSample read(uint64_t index) const = 0;
  /// What samples have besides picture and label.
  virtual std::vector<FieldType> fields() const { return {}; }
  /// Changes whenever read() would give something else. A packing that goes on after an interruption compares it.
  virtual std::string fingerprint() const = 0;
  /// The name of the sample in messages: its file, where it has one of its own.
  virtual std::string where(uint64_t index) const { return "sample " + std::to_string(index); }
  /// The sample's file, relative to the input folder; nothing where it has none of its own.
  virtual std::string path(uint64_t) const { return {}; }
  /// Set when every sample is a raw picture of this extent, and of raw_pixels().
  virtual std::optional<Extent> raw_extent() const { return {}; }
  virtual PixelType raw_pixels() const { return PixelType::kU8; }
  /// Which files in the input folder are not read.
  virtual IgnoredFiles ignored() const { return {}; }
  /// What was taken in another way than one may expect, in a line each: what packing says besides. Read when all
  /// samples have been read.
  virtual std::vector<std::string> notes() const { return {}; }
};

/// The bytes of a picture's file as a sample: JPEG and PNG as they are, foreign formats as a PNG with the same pixels
/// or, where that holds no such pixels, raw and upright. An array of NumPy, H x W or H x W x C of u8, u16 or
/// f32, becomes raw pixels. Errors: corrupt_error, which names no file.
SourceSample picture_sample(std::vector<uint8_t> bytes);
/// Throws corrupt_error for a file of another format, by its first bytes.
void check_picture_format(std::span<const uint8_t> bytes);
/// What the key `annotations` of a source means: raw or upright; "" leaves it open. Throws config_error.
AnnotatedOn annotated_on(const std::string& where, const std::string& text);

struct SourceKind {
  using Interface = Source;
  static constexpr const char* kName = "source";
  /// Takes the spec, the input folder (may be empty for embedded sources) and the split: train, test or all.
  using Factory = std::function<std::unique_ptr<Source>(const Spec&, const std::filesystem::path&, const std::string&)>;
};
using SourceRegistry = Registry<SourceKind>;

}  // namespace penstock
