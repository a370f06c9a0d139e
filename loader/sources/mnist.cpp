// mnist: the four IDX files of LeCun, Cortes and Burges, plain or gzipped; 28 x 28 grey, or whatever size the files
// state.
#include <zlib.h>

#include <array>
#include <memory>

#include "core/error.h"
#include "core/text.h"
#include "loader/detail/input_file.h"
#include "loader/detail/mapped_file.h"
#include "loader/sources/source.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kImageMagic = 0x00000803, kLabelMagic = 0x00000801;  // u8 of 3 and of 1 dimensions
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 34;                   // a .gz may claim anything

/// An IDX file as a whole in memory: the map, or what the map unpacks to (47 MB for MNIST's largest).
class IdxFile {
 public:
  IdxFile(const fs::path& path, uint32_t magic, size_t dimension_count) : path_(path), map_(path) {
    bytes_ = map_.bytes();
    if (path.extension() == ".gz") {
      unpack();
      bytes_ = unpacked_;
    }
    if (bytes_.size() < 4 + 4 * dimension_count)
      throw corrupt_error(concat(path.string(), ": ", bytes_.size(), " bytes; expected an IDX file"));
    if (word(0) != magic) {
      throw corrupt_error(concat(path.string(), ": magic number is ", std::hex, "0x", word(0), "; expected 0x", magic,
                                 ", an IDX file of ", std::dec, dimension_count, " dimensions"));
    }
    uint64_t expected = 1;
    for (size_t i = 0; i < dimension_count; ++i) {
      dimensions_.push_back(word(1 + i));
      // Three 32 bit numbers overflow 64 bits; no dimension of a file that exists gets there.
      if (__builtin_mul_overflow(expected, uint64_t{dimensions_.back()}, &expected)) expected = kMaxFileBytes;
    }
    data_ = bytes_.subspan(4 + 4 * dimension_count);
    if (data_.size() != expected) {
      throw corrupt_error(
          concat(path.string(), ": ", data_.size(), " bytes of data; expected ", expected, ", as its dimensions say"));
    }
  }

  const std::vector<uint32_t>& dimensions() const { return dimensions_; }
  std::span<const uint8_t> data() const { return data_; }
  const fs::path& path() const { return path_; }

 private:
  uint32_t word(size_t index) const {
    const uint8_t* p = &bytes_[4 * index];
    return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
  }

  void unpack() {
    const auto packed = map_.bytes();
    if (packed.size() < 2 || packed[0] != 0x1f || packed[1] != 0x8b)  // zlib would pass it on as it is
      throw corrupt_error(concat(path_.string(), ": ", packed.size(), " bytes that are no gzip file; expected one"));
    const auto closed = [](gzFile_s* file) { gzclose(file); };
    const std::unique_ptr<gzFile_s, decltype(closed)> file(gzopen(path_.c_str(), "rb"), closed);
    if (!file) throw errno_error(path_.string(), "expected a readable file");
    for (size_t used = 0;;) {
      unpacked_.resize(used + (size_t{1} << 22));
      const int count = gzread(file.get(), &unpacked_[used], static_cast<unsigned>(unpacked_.size() - used));
      int code = Z_OK;
      const std::string message = gzerror(file.get(), &code);
      used += count > 0 ? static_cast<size_t>(count) : 0;
      if (count < 0 || (code != Z_OK && code != Z_STREAM_END) || used > kMaxFileBytes)
        throw corrupt_error(
            concat(path_.string(), ": gzip gives up after ", used, " bytes (", message, "); expected a whole file"));
      if (count > 0) continue;
      unpacked_.resize(used);
      return;
    }
  }

  fs::path path_;
  detail::MappedFile map_;
  std::vector<uint8_t> unpacked_;
  std::span<const uint8_t> bytes_, data_;
  std::vector<uint32_t> dimensions_;
};

/// `train-images-idx3-ubyte`, also with '.' before idx, as some archives unpack it, and with .gz.
fs::path find_idx(const fs::path& folder, const std::string& stem, const std::string& kind) {
  std::vector<std::string> names;
  for (const char* separator : {"-", "."})
    for (const char* ending : {"", ".gz"}) names.push_back(concat(stem, separator, kind, "-ubyte", ending));
  for (const auto& name : names)
    if (fs::is_regular_file(folder / name)) return folder / name;
  throw io_error(concat(folder.string(), ": no ", names.front(), "; expected one of ", join(names)));
}

/// Pictures and labels of one part, train or test.
struct Part {
  IdxFile images, labels;

  Part(const fs::path& folder, const std::string& stem)
      : images(find_idx(folder, stem + "-images", "idx3"), kImageMagic, 3),
        labels(find_idx(folder, stem + "-labels", "idx1"), kLabelMagic, 1) {
    if (images.dimensions()[0] != labels.dimensions()[0]) {
      throw corrupt_error(concat(labels.path().string(), ": ", labels.dimensions()[0], " labels; expected ",
                                 images.dimensions()[0], ", as many as ", images.path().filename().string(),
                                 " has pictures"));
    }
    for (size_t i = 0; i < labels.data().size(); ++i) {
      if (labels.data()[i] > 9) {
        throw corrupt_error(
            concat(labels.path().string(), ": label ", i, " is ", int{labels.data()[i]}, "; expected 0 to 9"));
      }
    }
  }
};

class Mnist final : public Source {
 public:
  Mnist(const fs::path& folder, const std::string& split) {
    if (split != "test") parts_.push_back(std::make_unique<Part>(folder, "train"));
    if (split != "train") parts_.push_back(std::make_unique<Part>(folder, "t10k"));
    const auto& first = parts_.front()->images.dimensions();
    for (const auto& part : parts_) {
      const auto& sides = part->images.dimensions();
      if (sides[1] != first[1] || sides[2] != first[2] || sides[1] < 1 || sides[1] > 65535 || sides[2] < 1 ||
          sides[2] > 65535) {
        throw corrupt_error(concat(part->images.path().string(), ": pictures of ", sides[1], " x ", sides[2],
                                   "; expected sides from 1 to 65535, equal in all files"));
      }
    }
    extent_ = {static_cast<int>(first[1]), static_cast<int>(first[2]), 1};
  }

  uint64_t size() const override {
    uint64_t count = 0;
    for (const auto& part : parts_) count += part->labels.data().size();
    return count;
  }
  std::vector<std::string> class_names() const override { return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}; }
  int64_t label(uint64_t index) const override {
    const auto& part = part_of(index);
    return part.labels.data()[index];
  }
  SourceSample read(uint64_t index) const override {
    const auto& part = part_of(index);
    const auto picture_bytes = static_cast<size_t>(extent_.height) * extent_.width;
    const auto pixels = part.images.data().subspan(index * picture_bytes, picture_bytes);
    return {{pixels.begin(), pixels.end()}, Encoding::kRaw, extent_};
  }
  std::string fingerprint() const override {
    std::string text;
    for (const auto& part : parts_)
      text += detail::file_fingerprint(part->images.path()) + detail::file_fingerprint(part->labels.path());
    return text;
  }
  std::optional<Extent> raw_extent() const override { return extent_; }

 private:
  /// The part that holds sample `index`, which becomes the index inside of it.
  const Part& part_of(uint64_t& index) const {
    const uint64_t first_count = parts_.front()->labels.data().size();
    if (index < first_count) return *parts_.front();
    index -= first_count;
    return *parts_.back();
  }

  std::vector<std::unique_ptr<Part>> parts_;  // train, then test
  Extent extent_;
};

const Registered<SourceKind> kRegistered{"mnist", "MNIST's IDX files, plain or .gz, in the input folder (no keys)",
                                         [](const Spec&, const fs::path& input, const std::string& split) {
                                           return std::make_unique<Mnist>(detail::input_folder("mnist", input), split);
                                         }};

}  // namespace
}  // namespace penstock
