// CocoAnnotations: what COCO's json files say about pictures, as fields.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loader/files/field.h"
#include "loader/files/instance_masks.h"

namespace penstock::detail {

struct CocoOptions {
  bool has_masks = true;  // whether masks are kept
  AnnotatedOn annotated_on = AnnotatedOn::kUnknown;
  std::string pairs = {};  // pairs_of_text(); "": by their names
  bool are_ids = true;     // whether labels are the categories' ids in the file; else 0, 1, ... in the order of the ids
};

/// Pictures sorted by id. Fields, as far as the files have them: image_id; boxes (x0, y0, x1, y1), and of them labels,
/// area, iscrowd, masks and keypoints with their pairs (keypoint_pairs.h); captions, a line for each.
///
/// Memory: the largest file while it is read, and 32 bytes per object besides its mask. Errors: io_error, and
/// corrupt_error, which names the file. Thread-safety: immutable after construction.
class CocoAnnotations {
 public:
  CocoAnnotations(const std::vector<std::filesystem::path>& files, const CocoOptions& options);

  struct Picture {
    int64_t id = 0;
    std::string file;  // below the folder of pictures; a plain path
    int height = 0, width = 0;
  };
  const std::vector<Picture>& pictures() const { return pictures_; }
  /// With labels 0, 1, ... the labels have the names of their categories, unless one has none.
  std::vector<FieldType> fields() const;
  std::vector<FieldValue> values(uint64_t picture) const;  ///< As fields().
  std::string where(uint64_t picture) const;               ///< "x.json: image 17".

 private:
  struct Objects {
    FieldValue boxes, labels, area, crowd, keypoints;
    std::vector<InstanceMask> masks;
    std::string captions;
  };
  using Json = nlohmann::json;

  void read_file(const std::filesystem::path& file, bool is_first);
  void read_categories(const std::vector<Json>& records);
  std::vector<std::string> label_names() const;
  std::optional<std::vector<std::pair<int, int>>> pairs() const;
  void add_picture(const Json& record);
  void add_annotation(const Json& record);
  void add_object(const Json& record, Objects& objects, const Picture& picture);
  void add_mask(const Json& record, Objects& objects, const Picture& picture) const;
  void add_keypoints(const Json& record, Objects& objects, const std::string& where) const;
  /// "instances.json: image 5, annotation 17", for messages.
  std::string place_of(const Json& record, int64_t image_id) const;
  void sort_pictures();

  CocoOptions options_;
  std::string file_;  // which is read now, for messages
  std::vector<Picture> pictures_;
  std::vector<Objects> objects_;  // one entry per picture
  std::map<int64_t, size_t> picture_of_id_;
  std::map<int64_t, int64_t> label_of_category_;
  std::map<int64_t, std::string> category_names_;  // by id
  std::vector<std::string> keypoint_names_;        // empty: none
  std::string without_box_;                        // where the first annotation of file_ without one is
  std::string object_file_;                        // the file with boxes; "": none
  bool has_masks_ = false, has_captions_ = false;
};

}  // namespace penstock::detail
