// Pascal VOC's folders from an untrusted source: the first byte says whether the rest is the annotation, the list of
// annotations or the mask of one sample. Every sample that can be read has the fields that the source says.
#include <filesystem>

#include "loader/sources/source.h"
#include "tests/fuzz/fuzz_pictures.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAnnotation =
    "<annotation><object><name>dog</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>31</xmax><ymax>20</ymax></bndbox>"
    "</object></annotation>";

/// A data set of one picture, whose files are links to files in memory.
class VocFolder {
 public:
  VocFolder() {
    for (const char* folder : {"Annotations", "JPEGImages", "ImageSets/Segmentation", "SegmentationClass"})
      fs::create_directories(path_ / folder);
    link("JPEGImages/x.jpg", picture_);
  }
  ~VocFolder() { fs::remove_all(path_); }
  void link(const char* name, const fuzzing::MemoryFile& file) const {
    fs::remove(path_ / name);
    fs::create_symlink(file.path(), path_ / name);
  }
  const fs::path& path() const { return path_; }

 private:
  const fs::path path_ = fs::temp_directory_path() / ("penstock-fuzz-voc-" + std::to_string(getpid()));
  const fuzzing::MemoryFile picture_{fuzzing::small_jpeg()};
};

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

void read_all(const fs::path& folder, bool has_masks) {
  const auto source = SourceRegistry::make(
      parse_spec("source", has_masks ? "voc(masks=class)" : "voc(set=Segmentation)"), folder, "train");
  const auto types = source->fields();
  for (uint64_t i = 0; i < source->size(); ++i) {
    const auto sample = source->read(i);
    if (sample.fields.size() != types.size()) std::abort();
    for (size_t field = 0; field < types.size(); ++field)
      check_field_value(types[field], sample.fields[field], sample.extent.height, sample.extent.width);
  }
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size == 0) return 0;
  static const VocFolder folder;
  const std::span<const uint8_t> rest(data + 1, size - 1);
  const bool is_mask = data[0] == 'm';
  if (is_mask && rest.size() > 24 && (rest[16] != 0 || rest[20] != 0)) return 0;  // a PNG of 2^24 rows or columns
  const fuzzing::MemoryFile annotation(data[0] == 'x' ? rest : bytes_of(kAnnotation));
  const fuzzing::MemoryFile list(data[0] == 'l' ? rest : bytes_of("x\n"));
  const fuzzing::MemoryFile mask(rest);
  folder.link("Annotations/x.xml", annotation);
  folder.link("ImageSets/Segmentation/train.txt", list);
  folder.link("SegmentationClass/x.png", mask);
  try {
    read_all(folder.path(), is_mask);
  } catch (const Error&) {
  }
  return 0;
}
