// voc: reads Pascal VOC's folders: Annotations/*.xml, JPEGImages, and with masks= SegmentationClass or
// SegmentationObject.
//
// The samples of a split are the lines of ImageSets/<set>/<name>.txt, where the set is Main, or with masks
// Segmentation, and the name that of the split, also trainval for train and all; without these lists train and all are
// all of Annotations, sorted. VOC counts pixels from 1 and its last pixel is inside: (xmin - 1, ymin - 1, xmax, ymax)
// is the box on edges of pixels. Other programs that write such files count from 0: one-based=off takes the numbers as
// they are. A label is the number that the class has in VOC's masks, from 1 on. A mask keeps the numbers of its
// palette.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "core/bytes.h"
#include "core/error.h"
#include "core/number.h"
#include "core/regular_file.h"
#include "core/text.h"
#include "loader/files/input_file.h"
#include "loader/import/picture_formats.h"
#include "loader/import/xml.h"
#include "loader/sources/picture_files.h"
#include "loader/sources/split_names.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using detail::XmlElement;

constexpr const char* kVocClasses =
    "aeroplane:bicycle:bird:boat:bottle:bus:car:cat:chair:cow:diningtable:dog:horse:motorbike:person:pottedplant:sheep:"
    "sofa:train:tvmonitor";
constexpr uint64_t kMaxXmlBytes = uint64_t{1} << 26;

struct VocOptions {
  std::vector<std::string> classes;
  double first_pixel = 1;                         // what the annotations call the first one
  bool has_classes = false, has_objects = false;  // which masks
  AnnotatedOn annotated_on = AnnotatedOn::kUnknown;
};

struct Entry {
  fs::path picture, xml, classes, objects;  // the last two: masks, or nothing
};

const XmlElement& child_of(const XmlElement& element, const char* name) {
  if (const auto* child = element.child(name)) return *child;
  throw corrupt_error(concat("<", element.name, "> without <", name, ">; expected one"));
}

double number_in(const XmlElement& element, const char* name) {
  const std::string& text = child_of(element, name).text;
  if (const auto value = parse_number<double>(text); value && std::isfinite(*value)) return *value;
  throw corrupt_error(concat("<", name, "> is ", in_quotes(text), "; expected a number"));
}

std::string in_small_letters(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

/// 0 or 1; 0 where it is missing or empty. Other programs write words, or the share that is cut off, of which any
/// counts.
uint8_t flag_in(const XmlElement& element, const char* name) {
  const auto* child = element.child(name);
  if (child == nullptr || child->text.empty()) return 0;
  const std::string text = in_small_letters(child->text);
  for (const char* no : {"false", "no", "none", "unspecified", "unknown"})
    if (text == no) return 0;
  if (text == "true" || text == "yes") return 1;
  if (const auto share = parse_number<double>(text); share && *share >= 0 && *share <= 1) return *share > 0;
  throw corrupt_error(concat("<", name, "> is ", in_quotes(child->text),
                             "; expected 0 or 1, a share between them, true, false or Unspecified"));
}

class Voc final : public Source {
 public:
  Voc(fs::path root, std::vector<Entry> entries, VocOptions options)
      : root_(std::move(root)), entries_(std::move(entries)), options_(std::move(options)) {}

  uint64_t size() const override { return entries_.size(); }
  std::vector<std::string> class_names() const override { return {}; }
  int64_t label(uint64_t) const override { return 0; }

  std::vector<FieldType> fields() const override {
    const std::vector<int64_t> list{FieldType::kVariable};
    std::vector<FieldType> types{
        {.name = "boxes", .kind = FieldKind::kBoxes, .shape = {FieldType::kVariable, 4}},
        {.name = "labels", .kind = FieldKind::kLabels, .dtype = Dtype::kI64, .shape = list, .of = "boxes"},
        {.name = "difficult", .dtype = Dtype::kU8, .shape = list, .of = "boxes"},
        {.name = "truncated", .dtype = Dtype::kU8, .shape = list, .of = "boxes"}};
    if (options_.has_classes)
      types.push_back({.name = "mask", .kind = FieldKind::kMask, .dtype = Dtype::kU8, .shape = list, .fill = 255});
    if (options_.has_objects)
      types.push_back({.name = "objects", .kind = FieldKind::kMask, .dtype = Dtype::kU8, .shape = list, .fill = 0});
    return types;
  }

  SourceSample read(uint64_t index) const override {
    const Entry& entry = entries_[index];
    SourceSample sample = detail::read_picture(entry.picture);
    try {
      add_objects(detail::parse_xml(read_file(entry.xml, kMaxXmlBytes)), sample);
    } catch (const Error& error) {
      throw Error(error.kind(), concat(entry.xml.string(), ": ", error.what()));
    }
    for (const auto& mask : {entry.classes, entry.objects})
      if (!mask.empty()) sample.fields.push_back(detail::read_mask(mask));
    return sample;
  }

  std::string fingerprint() const override {
    detail::Fingerprint fingerprint;
    for (const auto& entry : entries_)
      for (const auto& file : {entry.picture, entry.xml, entry.classes, entry.objects})
        if (!file.empty()) fingerprint.add(file);
    return fingerprint.text();
  }
  std::string where(uint64_t index) const override { return entries_[index].picture.string(); }
  std::string path(uint64_t index) const override { return entries_[index].picture.lexically_relative(root_).string(); }

 private:
  void add_objects(const XmlElement& root, SourceSample& sample) const {
    if (root.name != "annotation") throw corrupt_error(concat("<", root.name, ">; expected <annotation>"));
    sample.annotated = {options_.annotated_on};
    read_size(root, sample.extent, sample.annotated);
    FieldValue boxes, labels, difficult, truncated;
    for (const auto& object : root.children) {
      if (object.name != "object") continue;
      const XmlElement& box = child_of(object, "bndbox");
      const double shift = options_.first_pixel;
      for (const double edge : {number_in(box, "xmin") - shift, number_in(box, "ymin") - shift, number_in(box, "xmax"),
                                number_in(box, "ymax")})
        append_bytes(boxes, static_cast<float>(edge));
      append_bytes(labels, label_of(child_of(object, "name").text));
      difficult.push_back(flag_in(object, "difficult"));
      truncated.push_back(flag_in(object, "truncated"));
    }
    sample.fields = {std::move(boxes), std::move(labels), std::move(difficult), std::move(truncated)};
  }

  int64_t label_of(const std::string& name) const {
    const auto found = std::find(options_.classes.begin(), options_.classes.end(), name);
    if (found == options_.classes.end())
      throw corrupt_error(concat("<name> is ", in_quotes(name), "; expected one of ", shortened(join(options_.classes)),
                                 ", or voc(classes=A:B)"));
    return found - options_.classes.begin() + 1;
  }

  static void read_size(const XmlElement& root, const Extent& extent, Annotated& annotated) {
    const auto* size = root.child("size");
    if (size == nullptr) return;
    const double height = number_in(*size, "height"), width = number_in(*size, "width");
    const bool is_it = height == extent.height && width == extent.width;
    const bool is_turned = height == extent.width && width == extent.height;
    if (height == 0 && width == 0) return;  // as some programs write
    if (!is_it && !is_turned)
      throw corrupt_error(concat("<size> is ", height, " x ", width, "; expected ", extent.height, " x ", extent.width,
                                 ", as the picture has"));
    annotated.height = static_cast<int>(height);
    annotated.width = static_cast<int>(width);
  }

  fs::path root_;
  std::vector<Entry> entries_;
  VocOptions options_;
};

/// The file with the first of these endings. Nothing: there is none.
fs::path file_with(const fs::path& stem, const std::vector<const char*>& endings) {
  for (const char* ending : endings)
    if (fs::path file = stem.string() + ending; detail::is_file(file)) return file;
  return {};
}

fs::path xml_of(const fs::path& root, const std::string& id) {
  return file_with(root / "Annotations" / id, {".xml", ".XML"});
}

/// The annotation that a line of a list names: all of it, which may have spaces, or what precedes its last word, such
/// as the 1 of "2007_000032  1"; or else its first word.
std::string id_in(const fs::path& root, std::string line) {
  constexpr const char* kSpaces = " \t\r";
  const auto without_spaces = [](std::string& text) { text.erase(text.find_last_not_of(kSpaces) + 1); };
  without_spaces(line);
  const std::string first = line.substr(0, line.find_first_of(kSpaces));
  if (first == line) return first;
  const auto is_there = [&](const std::string& id) {
    return detail::plain_path(id).has_value() && !xml_of(root, id).empty();
  };
  if (is_there(line)) return line;
  line.erase(line.find_last_of(kSpaces));
  without_spaces(line);
  return is_there(line) ? line : first;
}

/// The annotations that ImageSets/<set>/<name>.txt names, one per line. Nothing: there is no such file.
std::optional<std::vector<std::string>> listed(const fs::path& root, const std::string& set,
                                               const std::vector<std::string>& names) {
  for (const auto& name : names) {
    const fs::path file = root / "ImageSets" / set / (name + ".txt");
    if (!fs::is_regular_file(file)) continue;
    std::vector<std::string> ids;
    for (const auto& line : split(read_text(file), '\n')) {
      const std::string id = id_in(root, line);
      if (id.empty()) continue;
      if (!detail::plain_path(id))
        throw corrupt_error(concat(file.string(), ": ", in_quotes(id), "; expected the name of an annotation"));
      ids.push_back(id);
    }
    return ids;
  }
  return {};
}

std::vector<std::string> ids_of(const fs::path& root, const std::string& set, const std::string& split) {
  auto names = detail::split_names(split);
  if (split == "test") names = {"val", "test", "valid", "validation"};
  if (split != "test") names.push_back("trainval");
  if (auto ids = listed(root, set, names)) return std::move(*ids);
  if (split == "test" || fs::is_directory(root / "ImageSets" / set))
    throw io_error(concat((root / "ImageSets" / set).string(), ": no list for split ", split, "; expected ",
                          join(names, ".txt, "), ".txt, or another set=FOLDER"));
  std::vector<std::string> ids;
  for (const auto& entry : fs::directory_iterator(root / "Annotations"))
    if (in_small_letters(entry.path().extension().string()) == ".xml") ids.push_back(entry.path().stem().string());
  std::sort(ids.begin(), ids.end());
  return ids;
}

/// Finds the pictures of annotations: files of their names whose endings are those of pictures, in any case.
class Pictures {
 public:
  explicit Pictures(fs::path root) : root_(std::move(root)) {}

  fs::path of(const std::string& id) {
    for (const char* ending : {".jpg", ".jpeg", ".png", ".JPG", ".webp", ".bmp", ".tif", ".tiff"})
      for (const char* folder : {"JPEGImages", "images"})
        if (fs::path file = root_ / folder / (id + ending); detail::is_file(file)) return file;
    for (const char* folder : {"JPEGImages", "images"}) {
      const auto& files = files_in((root_ / folder / id).parent_path());
      if (const auto found = files.find(fs::path(id).filename().string()); found != files.end()) return found->second;
    }
    throw io_error(concat((root_ / "JPEGImages" / (id + ".jpg")).string(),
                          ": is not there; expected the picture of Annotations/", id, ".xml"));
  }

 private:
  using ByStem = std::map<std::string, fs::path>;

  /// The pictures of a folder, of which each is listed once; the first by the alphabet where two have one name.
  const ByStem& files_in(const fs::path& folder) {
    const auto [place, is_new] = folders_.emplace(folder, ByStem());
    std::error_code none;
    if (!is_new || !fs::is_directory(folder, none)) return place->second;
    std::set<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_regular_file() && detail::is_picture_name(entry.path())) files.insert(entry.path());
    for (const auto& file : files) place->second.emplace(file.stem().string(), file);
    return place->second;
  }

  fs::path root_;
  std::map<fs::path, ByStem> folders_;
};

std::unique_ptr<Source> open_voc(const Spec& spec, const fs::path& given, const std::string& split) {
  VocOptions options{.classes = penstock::split(spec.get("classes", kVocClasses), ':'),
                     .first_pixel = spec.get("one-based", true) ? 1.0 : 0.0};
  for (auto name = options.classes.begin(); name != options.classes.end(); ++name)
    if (name->empty() || std::find(options.classes.begin(), name, *name) != name)
      throw config_error(
          concat(spec.where(), ": classes has ", in_quotes(*name), " twice or empty; expected each name once"));
  const std::string masks = spec.get("masks", "none");
  const std::array<std::string, 4> known{"none", "class", "object", "both"};
  if (std::find(known.begin(), known.end(), masks) == known.end())
    throw config_error(concat(spec.where(), ": masks is ", in_quotes(masks), "; expected none, class, object or both"));
  options.has_classes = masks == "class" || masks == "both";
  options.has_objects = masks == "object" || masks == "both";
  options.annotated_on = annotated_on(spec.where(), spec.get("annotations", ""));
  const fs::path& root = detail::input_folder("voc", given);
  if (!fs::is_directory(root / "Annotations"))
    throw io_error(concat((root / "Annotations").string(), ": no such folder; expected it in the input of source voc"));
  std::vector<Entry> entries;
  Pictures pictures(root);
  const auto mask_of = [&](bool is_wanted, const char* folder, const std::string& id) {
    return is_wanted ? file_with(root / folder / id, {".png", ".PNG"}) : fs::path();
  };
  for (const auto& id : ids_of(root, spec.get("set", masks == "none" ? "Main" : "Segmentation"), split)) {
    Entry entry{pictures.of(id), xml_of(root, id), mask_of(options.has_classes, "SegmentationClass", id),
                mask_of(options.has_objects, "SegmentationObject", id)};
    const auto check = [&](bool is_needed, const fs::path& file, const fs::path& usual) {
      if (is_needed && file.empty())
        throw io_error(concat(usual.string(), ": is not there; expected it for ", entry.picture.string()));
    };
    check(true, entry.xml, root / "Annotations" / (id + ".xml"));
    check(options.has_classes, entry.classes, root / "SegmentationClass" / (id + ".png"));
    check(options.has_objects, entry.objects, root / "SegmentationObject" / (id + ".png"));
    entries.push_back(std::move(entry));
  }
  return std::make_unique<Voc>(root, std::move(entries), std::move(options));
}

const Registered<SourceKind> kVoc{
    "voc",
    {"set", "classes", "one-based", "masks", "annotations"},
    "Pascal VOC's folders: set=FOLDER of ImageSets with the lists (Main; Segmentation "
    "with masks), classes=A:B names, of "
    "which the first has label 1 (VOC's 20), one-based=on, or off where annotations "
    "count pixels from 0 (on), masks=none, "
    "class, object or both (none), annotations=raw or upright where no size tells whether "
    "EXIF turns them",
    open_voc};

}  // namespace
}  // namespace penstock
