// coco: reads COCO's annotations: objects with boxes and masks, key points of persons, captions.
//
// The annotations are annotations=FILE:FILE in DIR, or else DIR/annotations/instances_<name>.json, <name>.json there,
// or DIR/<split>/_annotations.coco.json, where name is the split's with or without a year (train2017, val2014).
// Pictures are in pictures=DIR, or else in DIR/<name>, DIR/images/<name>, DIR/images, or beside the annotations.
// Pictures are sorted by their id in the file; those without annotations stay.
#include <algorithm>
#include <memory>

#include "core/error.h"
#include "core/text.h"
#include "loader/files/input_file.h"
#include "loader/sources/coco_annotations.h"
#include "loader/sources/picture_files.h"
#include "loader/sources/split_names.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class Coco final : public Source {
 public:
  Coco(fs::path root, std::vector<fs::path> files, const detail::CocoOptions& options)
      : root_(std::move(root)),
        files_(std::move(files)),
        annotated_on_(options.annotated_on),
        annotations_(files_, options) {
    for (uint64_t i = 0; i < size(); ++i)
      if (!detail::is_file(file_of(i)))
        throw io_error(concat(annotations_.where(i), ": ", file_of(i).string(),
                              " is not there; expected the picture, or another pictures=DIR"));
  }

  uint64_t size() const override { return annotations_.pictures().size(); }
  std::vector<std::string> class_names() const override { return {}; }
  int64_t label(uint64_t) const override { return 0; }
  std::vector<FieldType> fields() const override { return annotations_.fields(); }

  SourceSample read(uint64_t index) const override {
    SourceSample sample = detail::read_picture(file_of(index));
    const auto& [height, width, channels] = sample.extent;
    const auto& stated = annotations_.pictures()[index];
    const bool is_turned = stated.height == width && stated.width == height;
    if ((stated.height != height || stated.width != width) && !is_turned)
      throw corrupt_error(concat(where(index), ": a picture of ", height, " x ", width, "; expected ", stated.height,
                                 " x ", stated.width, ", as ", annotations_.where(index), " says"));
    sample.fields = annotations_.values(index);
    sample.annotated = {annotated_on_, stated.height, stated.width};
    return sample;
  }

  std::string fingerprint() const override {
    detail::Fingerprint fingerprint;
    for (const auto& file : files_) fingerprint.add(file);
    for (uint64_t i = 0; i < size(); ++i) fingerprint.add(file_of(i));
    return fingerprint.text();
  }
  std::string where(uint64_t index) const override { return file_of(index).string(); }
  std::string path(uint64_t index) const override { return annotations_.pictures()[index].file; }

 private:
  fs::path file_of(uint64_t index) const { return root_ / annotations_.pictures()[index].file; }

  fs::path root_;
  std::vector<fs::path> files_;
  AnnotatedOn annotated_on_;
  detail::CocoAnnotations annotations_;
};

/// "train2017", "train2014", "train", for split test "val2017" before "test2017".
std::vector<std::string> names_of(const std::string& split) {
  std::vector<std::string> names;
  auto splits = detail::split_names(split);
  if (split == "test") splits = {"val", "valid", "validation", "test"};
  for (const auto& name : splits)
    for (const char* year : {"2017", "2014", ""}) names.push_back(name + year);
  return names;
}

struct Place {
  std::vector<fs::path> files;
  std::string name;  // of the split in the names of files; "": not known
};

/// What comes after the last '_' of "instances_val2017.json".
std::string name_in(const fs::path& file) {
  const std::string stem = file.stem().string();
  return stem.substr(stem.rfind('_') == std::string::npos ? 0 : stem.rfind('_') + 1);
}

/// Whether an item of the key annotations says where they were made, and is no file.
bool names_raster(const std::string& item) { return item == "raw" || item == "upright"; }

Place find_annotations(const std::vector<std::string>& given, const Spec& spec, const fs::path& input,
                       const std::string& split) {
  Place place;
  if (!given.empty()) {
    for (const auto& name : given) {
      const bool is_beside = !fs::is_regular_file(input / name);  // a name without "annotations/"
      place.files.push_back(is_beside ? input / "annotations" / name : input / name);
      if (!fs::is_regular_file(place.files.back()))
        throw io_error(concat((input / name).string(), ": is not there; expected the annotations of source coco"));
    }
    detail::check_each_once(spec.where(), place.files);
    place.name = name_in(place.files.front());
    return place;
  }
  for (const auto& name : names_of(split))
    for (const auto& file : {input / "annotations" / ("instances_" + name + ".json"),
                             input / "annotations" / (name + ".json"), input / name / "_annotations.coco.json"})
      if (fs::is_regular_file(file)) return {{file}, name};
  throw io_error(concat(input.string(), ": no annotations/instances_", names_of(split).front(),
                        ".json; expected it, or annotations=FILE"));
}

fs::path find_pictures(const Spec& spec, const fs::path& input, const Place& place) {
  if (const std::string given = spec.get("pictures", ""); !given.empty()) {
    if (!fs::is_directory(input / given))
      throw io_error(concat((input / given).string(), ": no such folder; expected that of pictures="));
    return input / given;
  }
  for (const auto& folder : {input / place.name, input / "images" / place.name, input / "images"})
    if (fs::is_directory(folder) && !place.name.empty()) return folder;
  return place.files.front().parent_path();
}

std::unique_ptr<Source> open_coco(const Spec& spec, const fs::path& given, const std::string& split) {
  detail::CocoOptions options{.has_masks = spec.get("masks", true), .are_ids = true};
  std::vector<std::string> files;
  for (auto& item : penstock::split(spec.get("annotations", ""), ':')) {
    if (names_raster(item))
      options.annotated_on = annotated_on(spec.where(), item);
    else if (!item.empty())
      files.push_back(std::move(item));
  }
  const std::string labels = spec.get("labels", "id");
  if (labels != "id" && labels != "index")
    throw config_error(concat(spec.where(), ": labels is ", in_quotes(labels), "; expected id or index"));
  options.are_ids = labels == "id";
  options.pairs = spec.get("pairs", "");
  if (given.empty())
    throw config_error(
        concat(spec.where(), ": no input folder; expected --input DIR (shardprep) or --data coco:DIR (train)"));
  if (!fs::is_directory(given))
    throw io_error(concat(given.string(), ": no such folder; expected the input of ", spec.where()));
  Place place = find_annotations(files, spec, given, split);
  fs::path root = find_pictures(spec, given, place);
  return std::make_unique<Coco>(std::move(root), std::move(place.files), options);
}

const Registered<SourceKind> kCoco{
    "coco",
    {"annotations", "pictures", "masks", "labels", "pairs"},
    "COCO's json: annotations=FILE:FILE of objects, key points and captions "
    "(annotations/instances_<split><year>.json), and among them raw or upright where no size "
    "tells whether EXIF turns them, "
    "pictures=DIR (DIR/<split><year>), masks=on or off (on), labels=id of the category "
    "in the file, or index, from 0 in the "
    "order of the ids (id), pairs=a/b:c/d of key points that change places in a mirrored picture, by name or number, "
    "or "
    "none (those whose names differ in left and right, or l and r)",
    open_coco};

}  // namespace
}  // namespace penstock
