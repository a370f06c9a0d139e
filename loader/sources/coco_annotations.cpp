// CocoAnnotations: records of images, categories and annotations.
#include "loader/sources/coco_annotations.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "core/bytes.h"
#include "core/error.h"
#include "core/regular_file.h"
#include "core/text.h"
#include "loader/import/json_records.h"
#include "loader/import/keypoint_pairs.h"
#include "loader/sources/picture_files.h"

namespace penstock::detail {
namespace {

constexpr uint64_t kMaxJsonBytes = uint64_t{1} << 32;

int64_t whole_of(const nlohmann::json& record, const char* key, const std::string& where) {
  const auto found = record.find(key);
  if (found == record.end() || !found->is_number_integer())
    throw corrupt_error(concat(where, ": ", key, " is ", found == record.end() ? "missing" : shortened(found->dump()),
                               "; expected a whole number"));
  if (found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX)
    throw corrupt_error(concat(where, ": ", key, " is ", found->dump(), "; expected less than 2^63"));
  return found->get<int64_t>();
}

/// The finite numbers of an array.
std::vector<double> numbers_of(const nlohmann::json& value, const char* key, const std::string& where) {
  std::vector<double> numbers;
  if (value.is_array())
    for (const auto& item : value)
      if (item.is_number() && std::isfinite(item.get<double>())) numbers.push_back(item.get<double>());
  if (!value.is_array() || numbers.size() != value.size())
    throw corrupt_error(
        concat(where, ": ", key, " is ", shortened(value.dump()), "; expected a list of finite numbers"));
  return numbers;
}

/// As f32, in which the fields are.
float f32_of(double number, const char* key, const std::string& where) {
  const auto rounded = static_cast<float>(number);
  if (std::isfinite(rounded)) return rounded;
  throw corrupt_error(concat(where, ": ", key, " has ", number, "; expected numbers of f32, up to 3.4e38"));
}

/// Whether the annotation is of a crowd; false where it has no "iscrowd".
bool is_crowd_of(const nlohmann::json& record, const std::string& where) {
  const auto found = record.find("iscrowd");
  if (found == record.end()) return false;
  if (found->is_boolean()) return found->get<bool>();
  if (*found == 0 || *found == 1) return *found == 1;
  throw corrupt_error(concat(where, ": iscrowd is ", shortened(found->dump()), "; expected 0 or 1"));
}

}  // namespace

CocoAnnotations::CocoAnnotations(const std::vector<std::filesystem::path>& files, const CocoOptions& options)
    : options_(options) {
  for (const auto& file : files) {
    file_ = file.string();
    read_file(file, &file == &files.front());
  }
  sort_pictures();
}

void CocoAnnotations::read_file(const std::filesystem::path& file, bool is_first) {
  const auto bytes = penstock::read_file(file, kMaxJsonBytes);
  const std::string_view text = as_text(bytes);
  std::vector<Json> categories;
  // Annotations may come before the images in the file, so that it is read twice.
  for_each_record(text, file_, {"images", "categories"}, [&](const std::string& key, const Json& record) {
    if (key == "images" && is_first) add_picture(record);
    if (key == "categories") categories.push_back(record);
  });
  read_categories(categories);
  objects_.resize(pictures_.size());
  without_box_.clear();
  for_each_record(text, file_, {"annotations"},
                  [&](const std::string&, const Json& record) { add_annotation(record); });
  if (object_file_ == file_ && !without_box_.empty())
    throw corrupt_error(concat(without_box_, ": no bbox; expected one, as other annotations of the file have"));
}

void CocoAnnotations::read_categories(const std::vector<Json>& records) {
  std::set<int64_t> seen;  // other files may have the same ones
  for (const auto& record : records) {
    const int64_t id = whole_of(record, "id", concat(file_, ": categories"));
    if (!seen.insert(id).second)
      throw corrupt_error(concat(file_, ": category ", id, ": the id comes twice; expected it once"));
    label_of_category_[id] = id;
    if (const auto name = record.find("name"); name != record.end() && name->is_string())
      category_names_[id] = name->get<std::string>();
    const auto names = record.find("keypoints");
    if (names == record.end()) continue;
    const bool is_list = names->is_array() &&
                         std::all_of(names->begin(), names->end(), [](const Json& name) { return name.is_string(); });
    if (!is_list)
      throw corrupt_error(
          concat(file_, ": category ", id, ": keypoints is ", shortened(names->dump()), "; expected a list of names"));
    const auto found = names->get<std::vector<std::string>>();
    if (!keypoint_names_.empty() && keypoint_names_ != found)
      throw corrupt_error(concat(file_, ": category ", id, ": keypoints are ", shortened(join(found)), "; expected ",
                                 shortened(join(keypoint_names_)), ", as another category has"));
    keypoint_names_ = found;
  }
  if (options_.are_ids) return;
  int64_t next = 0;
  for (auto& [id, label] : label_of_category_) label = next++;
}

void CocoAnnotations::add_picture(const Json& record) {
  Picture picture;
  picture.id = whole_of(record, "id", concat(file_, ": images"));
  const std::string where = concat(file_, ": image ", picture.id);
  const int64_t height = whole_of(record, "height", where), width = whole_of(record, "width", where);
  const auto name = record.find("file_name");
  if (name != record.end() && name->is_string()) picture.file = name->get<std::string>();
  const auto plain = plain_path(picture.file);
  if (!plain)
    throw corrupt_error(
        concat(where, ": file_name is ", in_quotes(picture.file), "; expected a path below the pictures' folder"));
  picture.file = *plain;
  if (height < 1 || width < 1 || height > 65535 || width > 65535)
    throw corrupt_error(concat(where, ": ", height, " x ", width, " pixels; expected sides from 1 to 65535"));
  picture.height = static_cast<int>(height);
  picture.width = static_cast<int>(width);
  if (!picture_of_id_.emplace(picture.id, pictures_.size()).second)
    throw corrupt_error(concat(where, ": the id comes twice; expected it once"));
  pictures_.push_back(std::move(picture));
}

std::string CocoAnnotations::place_of(const Json& record, int64_t image_id) const {
  const auto id = record.find("id");
  return concat(file_, ": image ", image_id, id == record.end() ? "" : concat(", annotation ", shortened(id->dump())));
}

void CocoAnnotations::add_annotation(const Json& record) {
  const int64_t id = whole_of(record, "image_id", concat(file_, ": annotations"));
  const auto found = picture_of_id_.find(id);
  if (found == picture_of_id_.end())
    throw corrupt_error(concat(place_of(record, id), ": image_id is ", id, "; expected one of \"images\""));
  Objects& objects = objects_[found->second];
  const auto caption = record.find("caption");
  if (caption != record.end()) {
    if (!caption->is_string())
      throw corrupt_error(
          concat(place_of(record, id), ": caption is ", shortened(caption->dump()), "; expected a text"));
    std::string text = caption->get<std::string>();
    std::replace(text.begin(), text.end(), '\n', ' ');
    if (!objects.captions.empty()) objects.captions += '\n';
    objects.captions += text;
    has_captions_ = true;
  }
  if (record.contains("bbox"))
    add_object(record, objects, pictures_[found->second]);
  else if (caption == record.end() && without_box_.empty())
    without_box_ = concat(file_, ": image ", id);
}

void CocoAnnotations::add_object(const Json& record, Objects& objects, const Picture& picture) {
  const std::string where = place_of(record, picture.id);
  if (!object_file_.empty() && object_file_ != file_)
    throw config_error(
        concat("source coco: boxes in ", object_file_, " and ", file_, "; expected one file with boxes"));
  object_file_ = file_;
  const auto box = numbers_of(record["bbox"], "bbox", where);
  if (box.size() != 4)
    throw corrupt_error(concat(where, ": bbox has ", box.size(), " numbers; expected x, y, width and height"));
  for (const double edge : {box[0], box[1], box[0] + box[2], box[1] + box[3]})
    append_bytes(objects.boxes, f32_of(edge, "bbox", where));
  const int64_t category = whole_of(record, "category_id", where);
  const auto label = label_of_category_.find(category);
  if (label == label_of_category_.end())
    throw corrupt_error(concat(where, ": category_id is ", category, "; expected one of \"categories\""));
  append_bytes(objects.labels, label->second);
  const auto area = record.find("area");
  if (area != record.end() && !area->is_number())
    throw corrupt_error(concat(where, ": area is ", shortened(area->dump()), "; expected a number"));
  append_bytes(objects.area, f32_of(area != record.end() ? area->get<double>() : box[2] * box[3], "area", where));
  append_bytes(objects.crowd, static_cast<uint8_t>(is_crowd_of(record, where)));
  if (!keypoint_names_.empty()) add_keypoints(record, objects, where);
  if (options_.has_masks) add_mask(record, objects, picture);
  has_masks_ |= options_.has_masks && record.contains("segmentation");
}

void CocoAnnotations::add_keypoints(const Json& record, Objects& objects, const std::string& where) const {
  const size_t count = 3 * keypoint_names_.size();
  std::vector<double> numbers(count);
  if (record.contains("keypoints")) numbers = numbers_of(record["keypoints"], "keypoints", where);
  if (numbers.size() != count)
    throw corrupt_error(concat(where, ": ", numbers.size(), " numbers of key points; expected ", count));
  for (const double number : numbers) append_bytes(objects.keypoints, f32_of(number, "keypoints", where));
}

void CocoAnnotations::add_mask(const Json& record, Objects& objects, const Picture& picture) const {
  InstanceMask& mask = objects.masks.emplace_back();
  const auto found = record.find("segmentation");
  if (found == record.end()) return;
  const std::string where = place_of(record, picture.id);
  if (found->is_array()) {
    for (const auto& item : *found) {
      const auto numbers = numbers_of(item, "segmentation", where);
      if (numbers.size() % 2 != 0)
        throw corrupt_error(concat(where, ": a polygon of ", numbers.size(), " numbers; expected pairs"));
      auto& polygon = mask.polygons.emplace_back();
      for (size_t i = 0; i < numbers.size(); i += 2)
        polygon.push_back({f32_of(numbers[i], "segmentation", where), f32_of(numbers[i + 1], "segmentation", where)});
    }
    return;
  }
  const auto counts = found->find("counts"), size = found->find("size");
  if (!found->is_object() || counts == found->end() || size == found->end())
    throw corrupt_error(
        concat(where, ": segmentation is ", shortened(found->dump()), "; expected polygons, or counts with a size"));
  if (numbers_of(*size, "size", where) != std::vector<double>{double(picture.height), double(picture.width)})
    throw corrupt_error(concat(where, ": a mask of size ", size->dump(), "; expected ", picture.height, " x ",
                               picture.width, ", as the picture"));
  try {
    if (counts->is_string()) {
      mask.runs = runs_of_coco(counts->get_ref<const std::string&>());
    } else {
      for (const double run : numbers_of(*counts, "counts", where)) {
        if (run < 0 || run > 0xFFFFFFFFU || run != std::floor(run))
          throw corrupt_error(concat("a run of ", run, " pixels; expected a whole number"));
        mask.runs.push_back(static_cast<uint32_t>(run));
      }
    }
  } catch (const Error& error) {
    throw Error(error.kind(), concat(where, ": ", error.what()));
  }
  const uint64_t sum = std::accumulate(mask.runs.begin(), mask.runs.end(), uint64_t{0});
  if (sum != static_cast<uint64_t>(picture.height) * static_cast<uint64_t>(picture.width))
    throw corrupt_error(concat(where, ": runs of ", sum, " pixels; expected ", picture.height, " x ", picture.width));
}

void CocoAnnotations::sort_pictures() {
  std::vector<Picture> pictures;
  std::vector<Objects> objects;
  for (const auto& [id, place] : picture_of_id_) {
    pictures.push_back(std::move(pictures_[place]));
    objects.push_back(std::move(objects_[place]));
  }
  pictures_ = std::move(pictures);
  objects_ = std::move(objects);
  picture_of_id_.clear();
}

std::vector<std::string> CocoAnnotations::label_names() const {
  if (options_.are_ids || category_names_.size() != label_of_category_.size()) return {};
  std::vector<std::string> names;
  for (const auto& [id, name] : category_names_) names.push_back(name);
  return names;
}

std::optional<KeypointPairs> CocoAnnotations::pairs() const {
  if (!options_.pairs.empty()) return pairs_of_text("source coco", options_.pairs, keypoint_names_);
  auto pairs = left_right_pairs(keypoint_names_);
  return pairs.empty() ? std::nullopt : std::optional(std::move(pairs));
}

std::vector<FieldType> CocoAnnotations::fields() const {
  constexpr int64_t kAny = FieldType::kVariable;
  std::vector<FieldType> types{{.name = "image_id", .dtype = Dtype::kI64}};
  if (!object_file_.empty()) {
    types.push_back({.name = "boxes", .kind = FieldKind::kBoxes, .shape = {kAny, 4}});
    types.push_back({.name = "labels",
                     .kind = FieldKind::kLabels,
                     .dtype = Dtype::kI64,
                     .shape = {kAny},
                     .of = "boxes",
                     .names = label_names()});
    types.push_back({.name = "area", .shape = {kAny}, .of = "boxes"});
    types.push_back({.name = "iscrowd", .dtype = Dtype::kU8, .shape = {kAny}, .of = "boxes"});
    if (!keypoint_names_.empty())
      types.push_back({.name = "keypoints",
                       .kind = FieldKind::kKeypoints,
                       .shape = {kAny, static_cast<int64_t>(keypoint_names_.size()), 3},
                       .of = "boxes",
                       .swapped = pairs()});
    if (has_masks_)
      types.push_back(
          {.name = "masks", .kind = FieldKind::kInstances, .dtype = Dtype::kU8, .shape = {kAny}, .of = "boxes"});
  }
  if (has_captions_)
    types.push_back({.name = "captions", .kind = FieldKind::kText, .dtype = Dtype::kU8, .shape = {kAny}});
  return types;
}

std::vector<FieldValue> CocoAnnotations::values(uint64_t picture) const {
  const Objects& objects = objects_[picture];
  std::vector<FieldValue> values(1);
  append_bytes(values[0], pictures_[picture].id);
  if (!object_file_.empty()) {
    values.insert(values.end(), {objects.boxes, objects.labels, objects.area, objects.crowd});
    if (!keypoint_names_.empty()) values.push_back(objects.keypoints);
    if (has_masks_) values.push_back(pack_instances(objects.masks));
  }
  if (has_captions_) values.emplace_back(objects.captions.begin(), objects.captions.end());
  return values;
}

std::string CocoAnnotations::where(uint64_t picture) const { return concat(file_, ": image ", pictures_[picture].id); }

}  // namespace penstock::detail
