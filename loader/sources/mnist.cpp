// mnist: reads the four IDX files of LeCun, Cortes and Burges, plain or gzipped. Pictures are 28 x 28 grey, or of
// whatever size the files state.
#include <zlib.h>

#include <algorithm>
#include <memory>

#include "core/error.h"
#include "core/text.h"
#include "loader/files/input_file.h"
#include "loader/sources/source.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kImageMagic = 0x00000803, kLabelMagic = 0x00000801;  // u8 of 3 and of 1 dimensions
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 34;                   // a header may claim anything

/// Reads the bytes of a plain or a gzipped file in order, and no more of them than are asked for.
class Stream {
 public:
  explicit Stream(const fs::path& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (!file_) throw errno_error(path.string(), "expected a readable file");
    const bool is_plain = gzdirect(file_.get()) != 0, is_named_plain = path.extension() != ".gz";
    if (is_plain == is_named_plain) return;
    throw corrupt_error(concat(path.string(), ": ", fs::file_size(path), " bytes that are ",
                               is_plain ? "no gzip file; expected one" : "a gzip file; expected .gz in its name"));
  }

  /// Returns the next `count` bytes, or fewer at the end of the file. Memory is allocated as bytes come, because a
  /// header may claim anything.
  std::vector<uint8_t> read(uint64_t count) {
    constexpr uint64_t kStepBytes = uint64_t{1} << 22;
    std::vector<uint8_t> bytes;
    while (bytes.size() < count) {
      const size_t used = bytes.size(), wanted = std::min(kStepBytes, count - used);
      bytes.resize(used + wanted);
      const int found = gzread(file_.get(), &bytes[used], static_cast<unsigned>(wanted));
      bytes.resize(used + static_cast<size_t>(std::max(found, 0)));
      check(found, bytes.size());
      if (found == 0) break;
    }
    return bytes;
  }

 private:
  void check(int found, size_t used) const {
    int code = Z_OK;
    const char* const message = gzerror(file_.get(), &code);
    if (code == Z_ERRNO) throw errno_error(path_.string(), "expected a readable file");
    if (found < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      throw corrupt_error(
          concat(path_.string(), ": gzip gives up after ", used, " bytes (", message, "); expected a whole file"));
    }
  }

  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  const fs::path& path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

/// A whole IDX file in memory (47 MB for MNIST's largest).
class IdxFile {
 public:
  IdxFile(const fs::path& path, uint32_t magic, size_t dimension_count) : path_(path) {
    Stream file(path_);
    const auto header = file.read(4 + 4 * dimension_count);
    if (header.size() < 4 + 4 * dimension_count)
      throw corrupt_error(concat(path.string(), ": ", header.size(), " bytes; expected an IDX file"));
    if (word(header, 0) != magic) {
      throw corrupt_error(concat(path.string(), ": magic number is ", std::hex, "0x", word(header, 0), "; expected 0x",
                                 magic, ", an IDX file of ", std::dec, dimension_count, " dimensions"));
    }
    uint64_t expected = 1;
    for (size_t i = 0; i < dimension_count; ++i) {
      dimensions_.push_back(word(header, 1 + i));
      // A product of three 32-bit numbers can overflow 64 bits, but no file that exists has such dimensions.
      if (__builtin_mul_overflow(expected, uint64_t{dimensions_.back()}, &expected)) expected = kMaxFileBytes;
    }
    data_ = file.read(std::min(expected, kMaxFileBytes));
    const bool has_more = data_.size() == expected && !file.read(1).empty();
    if (data_.size() == expected && !has_more) return;
    throw corrupt_error(concat(path.string(), ": ", has_more ? "more than " : "", data_.size(),
                               " bytes of data; expected ", expected, ", as its dimensions say"));
  }

  const std::vector<uint32_t>& dimensions() const { return dimensions_; }
  std::span<const uint8_t> data() const { return data_; }
  const fs::path& path() const { return path_; }

 private:
  static uint32_t word(std::span<const uint8_t> bytes, size_t index) {
    const uint8_t* p = &bytes[4 * index];
    return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
  }

  fs::path path_;
  std::vector<uint8_t> data_;
  std::vector<uint32_t> dimensions_;
};

/// Finds `train-images-idx3-ubyte`. The name may also have '.' before idx, as some archives unpack it, and .gz at the
/// end.
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
  /// Returns the part that holds sample `index`, and makes `index` the index inside of that part.
  const Part& part_of(uint64_t& index) const {
    const uint64_t first_count = parts_.front()->labels.data().size();
    if (index < first_count) return *parts_.front();
    index -= first_count;
    return *parts_.back();
  }

  std::vector<std::unique_ptr<Part>> parts_;  // one entry per part: train, then test
  Extent extent_;
};

const Registered<SourceKind> kMnist{"mnist",
                                    {},
                                    "MNIST's IDX files, plain or .gz, in the input folder (no keys)",
                                    [](const Spec&, const fs::path& input, const std::string& split) {
                                      return std::make_unique<Mnist>(detail::input_folder("mnist", input), split);
                                    }};

}  // namespace
}  // namespace penstock
