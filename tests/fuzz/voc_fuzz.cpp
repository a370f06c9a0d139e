// Pascal VOC's folders from an untrusted source: the first byte says whether the rest is the annotation, the list of
// annotations or the mask of one sample. Every sample that can be read has the fields that the source says.
#include <filesystem>

#include "loader/sources/source.h"
#include "tests/fuzz/fuzz_pictures.h"
#include "tests/fuzz/read_source.h"

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
    const auto spec = parse_spec("source", is_mask ? "voc(masks=class)" : "voc(set=Segmentation)");
    fuzzing::read_source(*SourceRegistry::make(spec, folder.path(), "train"));
  } catch (const Error&) {
  }
  return 0;
}
