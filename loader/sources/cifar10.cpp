// cifar10: reads Krizhevsky's binary batches, whose records are a label and three planes of 32 x 32.
#include <memory>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "loader/files/input_file.h"
#include "loader/files/mapped_file.h"
#include "loader/files/read_from.h"
#include "loader/sources/source.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr Extent kExtent{32, 32, 3};
constexpr size_t kPlaneBytes = 32 * 32, kRecordBytes = 1 + 3 * kPlaneBytes;

/// One batch file, mapped. Its labels are copied.
struct BatchFile {
  fs::path path;
  detail::MappedFile map;
  std::vector<uint8_t> labels;

  explicit BatchFile(const fs::path& file) : path(file), map(file) {
    if (map.bytes().empty() || map.bytes().size() % kRecordBytes != 0) {
      throw corrupt_error(concat(path.string(), ": ", map.bytes().size(), " bytes; expected a multiple of ",
                                 kRecordBytes, ", the size of a record"));
    }
    read_from(map, [this] {
      for (uint64_t i = 0; i < map.bytes().size() / kRecordBytes; ++i) {
        labels.push_back(record(i)[0]);
        if (labels.back() > 9) {
          throw corrupt_error(concat(path.string(), ": label at byte ", i * kRecordBytes, " is ", int{labels.back()},
                                     "; expected 0 to 9"));
        }
      }
    });
  }

  std::span<const uint8_t> record(uint64_t index) const {
    return map.bytes().subspan(index * kRecordBytes, kRecordBytes);
  }
};

class Cifar10 final : public Source {
 public:
  Cifar10(const fs::path& input, const std::string& split) {
    const fs::path inner = input / "cifar-10-batches-bin";
    const fs::path& folder = fs::is_directory(inner) ? inner : input;
    std::vector<std::string> names;
    if (split != "test")
      for (const char number : {'1', '2', '3', '4', '5'}) names.push_back(concat("data_batch_", number, ".bin"));
    if (split != "train") names.push_back("test_batch.bin");
    for (const auto& name : names) {
      if (!fs::is_regular_file(folder / name))
        throw io_error(concat(folder.string(), ": no ", name, "; expected ", join(names), ", the binary version"));
      files_.emplace_back(folder / name);
    }
  }

  uint64_t size() const override {
    uint64_t count = 0;
    for (const auto& file : files_) count += file.labels.size();
    return count;
  }
  std::vector<std::string> class_names() const override {
    return {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  }
  int64_t label(uint64_t index) const override {
    const auto& file = file_of(index);
    return file.labels[index];
  }

  SourceSample read(uint64_t index) const override {
    const auto& file = file_of(index);
    const auto planes = file.record(index).subspan(1);
    SourceSample sample{std::vector<uint8_t>(planes.size()), Encoding::kRaw, kExtent};
    for (size_t pixel = 0; pixel < kPlaneBytes; ++pixel)
      for (size_t channel = 0; channel < 3; ++channel)
        sample.bytes[pixel * 3 + channel] = planes[channel * kPlaneBytes + pixel];
    file.map.check_file(planes, concat(file.path.string(), ": record ", index));
    return sample;
  }

  std::string fingerprint() const override {
    std::string text;
    for (const auto& file : files_) text += detail::file_fingerprint(file.path);
    return text;
  }
  std::optional<Extent> raw_extent() const override { return kExtent; }

 private:
  /// Returns the file that holds sample `index`, and makes `index` the number of the record in that file.
  const BatchFile& file_of(uint64_t& index) const {
    auto file = files_.begin();
    for (; index >= file->labels.size(); ++file) index -= file->labels.size();
    return *file;
  }

  std::vector<BatchFile> files_;  // one entry per file: train in order, then test
};

const Registered<SourceKind> kCifar10{
    "cifar10",
    {},
    "CIFAR-10's binary files, in the input folder or in cifar-10-batches-bin inside it (no keys)",
    [](const Spec&, const fs::path& input, const std::string& split) {
      return std::make_unique<Cifar10>(detail::input_folder("cifar10", input), split);
    }};

}  // namespace
}  // namespace penstock
