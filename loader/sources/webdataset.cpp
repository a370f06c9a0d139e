// webdataset: reads WebDataset's tars: the files of a sample lie side by side and have one key, the path up to the
// first dot of the name.
//
// The input is a tar, or a pattern, in which {000..009} and {a,b} stand for several names, or DIR. In DIR the tars are
// shards=PATTERN, or else DIR/<split>/*.tar, or else DIR/<split>*.tar, or else for train and all DIR/*.tar, sorted,
// also with the endings of compressed ones. The picture of a sample has the ending picture=, or that of the first
// sample's picture, or else is, by the alphabet, the first whose ending is that of a picture; one without counts as
// broken. `cls` is its class: a whole number, read as Python's int() does, or a name. Every other file is a field,
// called by what comes before its last ending (seg.png: seg), or by that ending: .txt and .json text, .npy numbers,
// .png behind another ending a mask of its numbers, anything else bytes; unless the member __penstock__ says what they
// are (tar_kinds.h). All samples have the files of the first one with a picture. Sample i is the i-th in the order of
// the tars.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include "core/bytes.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/codecs/npy.h"
#include "loader/files/checksum.h"
#include "loader/files/input_file.h"
#include "loader/files/mapped_file.h"
#include "loader/files/read_from.h"
#include "loader/import/compressed.h"
#include "loader/import/picture_formats.h"
#include "loader/import/tar.h"
#include "loader/sources/class_list.h"
#include "loader/sources/picture_files.h"
#include "loader/sources/split_names.h"
#include "loader/sources/tar_kinds.h"
#include "loader/sources/tar_names.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using detail::MappedFile;

/// A part of an archive.
struct Extract {
  uint64_t offset = 0, size = 0;
};

/// A sample: one entry of each kind, and where its key is.
struct TarSample {
  uint32_t archive = 0;
  std::string key;
  const std::string* picture_ending;  // null: it has no picture
  std::vector<Extract> files;         // picture; class, if there are classes; then one per field
};

/// The files that a sample has, from its first member on.
struct Group {
  std::string key;
  std::map<std::string, Extract> files;  // by ending
};

class WebDataset final : public Source {
 public:
  WebDataset(const Spec& spec, const std::vector<fs::path>& tars)
      : label_ending_(spec.get("label", "cls")),
        picture_ending_(spec.get("picture", "")),
        annotated_on_(annotated_on(spec.where(), spec.get("annotations", ""))) {
    if (spec.has("fields"))
      for (const auto& ending : penstock::split(spec.get("fields", ""), ':')) wanted_.insert(ending);
    for (const auto& tar : tars) {
      archives_.push_back(detail::map_unpacked(tar));
      read_from(*archives_.back(), [&] { read_archive(static_cast<uint32_t>(archives_.size() - 1)); });
    }
    if (!waiting_.empty()) refuse_first();
    classes_.finish(tars.front().parent_path().string(), [&](uint64_t index) { return where(index); });
    finish_types(spec.where());
    name_classes(tars.front().string());
  }

  uint64_t size() const override { return samples_.size(); }
  std::vector<std::string> class_names() const override { return class_names_; }
  int64_t label(uint64_t index) const override { return classes_.label(index); }
  std::vector<FieldType> fields() const override { return types_; }

  SourceSample read(uint64_t index) const override {
    const TarSample& from = samples_[index];
    SourceSample sample;
    read_from(*archives_[from.archive], [&] {
      try {
        if (from.picture_ending == nullptr)
          throw corrupt_error(concat("no picture (.", picture_ending_, "); expected one in every sample"));
        sample = picture_sample(copy(from, 0));
        sample.annotated.on = kinds_ ? AnnotatedOn::kUpright : annotated_on_;  // as packed data sets are exported
        for (size_t i = 0; i < types_.size(); ++i) sample.fields.push_back(value(from, i));
      } catch (const Error& error) {
        throw Error(error.kind(), concat(where(index), ": ", error.what()));
      }
    });
    return sample;
  }

  std::string fingerprint() const override {
    detail::Fingerprint fingerprint;
    for (const auto& archive : archives_) fingerprint.add(archive->path());
    return fingerprint.text();
  }
  std::string where(uint64_t index) const override {
    const TarSample& sample = samples_[index];
    return concat(archives_[sample.archive]->path().string(), ": ", sample.key);
  }
  /// Below the name of the archive where archives use the same keys.
  std::string path(uint64_t index) const override {
    const TarSample& sample = samples_[index];
    const std::string name =
        sample.picture_ending == nullptr ? sample.key : concat(sample.key, ".", *sample.picture_ending);
    const std::string file = archives_[sample.archive]->path().filename().string();
    return has_common_keys_ ? concat(detail::tar_stem(file).value_or(file), "/", name) : name;
  }
  IgnoredFiles ignored() const override { return ignored_; }
  std::vector<std::string> notes() const override { return notes_; }

 private:
  std::string where_key(uint32_t archive, const std::string& key) const {
    return concat(archives_[archive]->path().string(), ": ", key);
  }

  void read_archive(uint32_t archive) {
    Group group;
    std::unordered_set<std::string> keys;
    const std::string where = archives_[archive]->path().string();
    const auto finish = [&] {
      if (group.files.empty()) return;
      if (!keys.insert(group.key).second)
        throw corrupt_error(
            concat(where_key(archive, group.key), ": the key comes twice; expected its files side by side"));
      has_common_keys_ |= !all_keys_.insert(std::hash<std::string>()(group.key)).second;
      add_sample(archive, group);
    };
    std::string last;
    const bool has_end =
        detail::for_each_member(archives_[archive]->bytes(), where, [&](const detail::TarMember& member) {
          last = member.path;
          if (member.path == detail::kKindsMember) return read_kinds(archive, {member.offset, member.size});
          const auto [key, ending] = detail::key_and_ending(member.path);
          if (ending.empty()) {
            ignored_.add(concat(archives_[archive]->path().filename().string(), ": ", member.path));
            return;
          }
          if (key != group.key) {
            finish();
            group = {key, {}};
          }
          if (!group.files.emplace(ending, Extract{member.offset, member.size}).second)
            throw corrupt_error(concat(where_key(archive, key), ": two files .", ending, "; expected one"));
        });
    finish();
    if (!has_end)
      notes_.push_back(concat(where, ": ends after ", in_quotes(last),
                              " without the two blocks of zeros that end a tar, and may have been cut there"));
  }

  void read_kinds(uint32_t archive, const Extract& member) {
    const std::string where = where_key(archive, std::string(detail::kKindsMember));
    const auto bytes = extract(archive, member);
    auto kinds = detail::kinds_of_text(as_text(bytes), where);
    if (kinds_ && *kinds_ != kinds)
      throw corrupt_error(concat(where, ": says something else than the one before; expected tars of one data set"));
    kinds_ = std::move(kinds);
  }

  /// The ending of a sample's picture: the one that all have, or another that is no field's; "" for none.
  std::string picture_of(const Group& group) const {
    if (group.files.contains(picture_ending_)) return picture_ending_;
    if (is_picture_given_) return "";
    for (const auto& [ending, file] : group.files) {
      const bool is_picture = detail::is_picture_name("x." + ending) && ending.find('.') == std::string::npos;
      if (is_picture && std::find(endings_.begin(), endings_.end(), ending) == endings_.end()) return ending;
    }
    return endings_.empty() && group.files.contains("npy") ? "npy" : "";  // as rasters are exported
  }

  /// No sample has a picture: the first one's files show why.
  [[noreturn]] void refuse_first() const {
    const auto& [archive, group] = waiting_.front();
    std::vector<std::string> endings;
    for (const auto& [ending, file] : group.files) endings.push_back("." + ending);
    throw corrupt_error(concat(where_key(archive, group.key), ": no picture (",
                               is_picture_given_ ? "." + picture_ending_ : ".jpg, .png, .webp, ...", ") among ",
                               shortened(join(endings)),
                               "; expected one in every sample, or picture=ENDING, where the ",
                               "ending is all after the first dot of a name"));
  }

  /// What the files of a sample are, by the first one that has a picture.
  void choose_endings(const std::string& where, const Group& group) {
    picture_ending_ = picture_of(group);
    endings_.push_back(picture_ending_);
    has_classes_ = group.files.contains(label_ending_);
    if (has_classes_) endings_.push_back(label_ending_);
    for (const auto& [ending, file] : group.files) {
      if (ending == picture_ending_ || ending == label_ending_) continue;
      if (!wanted_.empty() && !wanted_.contains(ending)) continue;
      if (detail::is_pickle_ending(ending))
        throw config_error(concat(where, ": .", ending,
                                  " is a pickle, which may run any program; expected other files, or "
                                  "fields= without it"));
      endings_.push_back(ending);
    }
    for (const auto& ending : wanted_)
      if (ending != "none" && !group.files.contains(ending))
        throw config_error(concat("source webdataset: fields has ", in_quotes(ending),
                                  "; expected endings that samples have, as ", where));
    first_field_ = has_classes_ ? 2 : 1;
  }

  void add_sample(uint32_t archive, const Group& group) {
    const std::string where = where_key(archive, group.key), picture = picture_of(group);
    if (endings_.empty()) {
      if (picture.empty()) return waiting_.emplace_back(archive, group), void();
      choose_endings(where, group);
      for (const auto& [other_archive, other] : std::exchange(waiting_, {})) add_sample(other_archive, other);
    }
    TarSample sample{archive, group.key, nullptr, {Extract{}}};
    if (!picture.empty()) {
      sample.picture_ending = &*picture_endings_.insert(picture).first;
      sample.files[0] = group.files.at(picture);
    }
    for (const auto& ending : std::span(endings_).subspan(1)) {
      const auto found = group.files.find(ending);
      if (found == group.files.end())
        throw corrupt_error(concat(where, ": no file .", ending, "; expected one, as the first sample has"));
      sample.files.push_back(found->second);
    }
    for (const auto& [ending, file] : group.files)
      if (ending != picture && std::find(endings_.begin(), endings_.end(), ending) == endings_.end())
        refuse_or_ignore(where, ending);
    if (has_classes_) classes_.add(class_of(where, extract(archive, sample.files[1])));
    try {
      see_arrays(archive, sample);
    } catch (const Error& error) {
      throw Error(error.kind(), concat(where, ": ", error.what()));
    }
    samples_.push_back(std::move(sample));
  }

  /// A file that the first sample has not.
  void refuse_or_ignore(const std::string& where, const std::string& ending) {
    if (wanted_.empty() && !first_endings_.contains(ending) && !samples_.empty())
      throw corrupt_error(concat(where, ": a file .", ending,
                                 ", which the first sample has not; expected the same files "
                                 "in every sample, or fields="));
    if (samples_.empty()) first_endings_.insert(ending);
    ignored_.add(concat(where, ".", ending));
  }

  /// A whole number as Python's int() reads it, also after a byte order mark; or a name, if all samples have names.
  std::string class_of(const std::string& where, std::span<const uint8_t> bytes) {
    const std::string whole(bytes.begin(), bytes.end());
    const std::string text(detail::trimmed(std::string_view(whole).substr(whole.starts_with("\xEF\xBB\xBF") ? 3 : 0)));
    if (text.empty() || text.size() > 1000)
      throw corrupt_error(concat(where, ": .", label_ending_, " has ", bytes.size(), " bytes; expected a class"));
    const auto number = detail::int_of(text);
    const bool is_name = !number && !detail::number_of(text);
    if ((!is_name && !number) || (number && *number < 0) || is_name != has_names_.value_or(is_name))
      throw corrupt_error(
          concat(where, ": .", label_ending_, " is ", in_quotes(text), "; expected ",
                 has_names_.value_or(false) ? "a name, as the samples before have" : "a whole number, 0 or more",
                 has_names_ ? "" : ", or a name"));
    has_names_ = is_name;
    return number ? std::to_string(*number) : text;
  }

  std::span<const uint8_t> extract(uint32_t archive, const Extract& file) const {
    return archives_[archive]->bytes().subspan(file.offset, file.size);
  }
  std::vector<uint8_t> copy(const TarSample& sample, size_t file) const {
    const auto bytes = extract(sample.archive, sample.files[file]);
    return {bytes.begin(), bytes.end()};
  }

  /// Whether files of this ending are arrays of numbers. Arrays that are pictures are kept as files.
  bool is_array(const std::string& ending) const {
    return detail::has_last_ending(ending, "npy") && !(kinds_ && detail::is_picture_by_kinds(*kinds_, ending));
  }

  /// Compares the dtype and shape of arrays with those before: the first size may differ.
  void see_arrays(uint32_t archive, const TarSample& sample) {
    arrays_.resize(endings_.size());
    for (size_t i = first_field_; i < endings_.size(); ++i) {
      if (!is_array(endings_[i])) continue;
      const auto array = detail::parse_npy(extract(archive, sample.files[i]));
      FieldType& type = arrays_[i];
      if (samples_.empty()) {
        type.dtype = array.dtype;
        type.shape = array.shape;
        continue;
      }
      const bool is_alike =
          type.dtype == array.dtype && type.shape.size() == array.shape.size() &&
          (array.shape.empty() || std::equal(array.shape.begin() + 1, array.shape.end(), type.shape.begin() + 1));
      if (!is_alike)
        throw corrupt_error(concat(".", endings_[i], " is ", dtype_name(array.dtype), " ", shape_text(array.shape),
                                   "; expected ", dtype_name(type.dtype), " ", shape_text(type.shape),
                                   ", as in the samples before, of which only the first size may differ"));
      if (!array.shape.empty() && array.shape[0] != type.shape[0]) type.shape[0] = FieldType::kVariable;
    }
  }

  void finish_types(const std::string& where) {
    const auto names =
        detail::field_names({endings_.begin() + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(first_field_),
                                                                         static_cast<std::ptrdiff_t>(endings_.size())),
                             endings_.end()});
    for (size_t i = first_field_; i < endings_.size(); ++i) {
      FieldType type{.name = names[i - first_field_],
                     .kind = FieldKind::kBytes,
                     .dtype = Dtype::kU8,
                     .shape = {FieldType::kVariable}};
      if (is_array(endings_[i])) {
        type.kind = FieldKind::kNumber;
        type.dtype = arrays_[i].dtype;
        type.shape = arrays_[i].shape;
      } else if (detail::has_last_ending(endings_[i], "txt") || detail::has_last_ending(endings_[i], "json")) {
        type.kind = FieldKind::kText;
      } else if (endings_[i] != "png" && detail::has_last_ending(endings_[i], "png")) {  // 7.png may be RGB
        type.kind = FieldKind::kMask;
        type.fill = 255;
      }
      if (kinds_) type = detail::type_by_kinds(*kinds_, type, archives_.front()->path().string());
      check_field_type(type, where);
      types_.push_back(std::move(type));
    }
  }

  /// Labels that are numbers have the names that the tars say.
  void name_classes(const std::string& where) {
    class_names_ = classes_.names();
    if (!kinds_ || kinds_->class_names.empty() || class_names_.empty() || label_ending_ != "cls") return;
    for (size_t label = class_names_.size(); label-- > 0;)  // the greatest number is one that a sample has
      if (class_names_[label] != std::to_string(label) || label >= kinds_->class_names.size())
        throw corrupt_error(concat(where, ": class ", in_quotes(class_names_[label]), "; expected 0 to ",
                                   kinds_->class_names.size() - 1, ", for which ", detail::kKindsMember, " has names"));
    class_names_ = kinds_->class_names;
  }

  FieldValue value(const TarSample& from, size_t field) const {
    const size_t file = first_field_ + field;
    auto bytes = copy(from, file);
    if (types_[field].kind == FieldKind::kMask) return detail::mask_value(std::move(bytes));
    if (!is_array(endings_[file])) return bytes;
    const auto data = detail::parse_npy(bytes).data;
    return {data.begin(), data.end()};
  }

  const std::string label_ending_;
  std::string picture_ending_;
  const AnnotatedOn annotated_on_;
  const bool is_picture_given_ = !picture_ending_.empty();
  std::set<std::string> picture_endings_;            // of all samples
  std::vector<std::pair<uint32_t, Group>> waiting_;  // the first samples, as long as none has a picture
  std::optional<bool> has_names_;                    // and not numbers as classes; nothing before the first
  std::set<std::string> wanted_;                     // endings; empty: all
  std::vector<std::unique_ptr<MappedFile>> archives_;
  std::vector<TarSample> samples_;
  std::vector<std::string> endings_;     // as TarSample::files
  std::set<std::string> first_endings_;  // those of the first sample that are no fields
  size_t first_field_ = 1;
  bool has_classes_ = false, has_common_keys_ = false;
  std::unordered_set<uint64_t> all_keys_;  // hashes
  std::vector<FieldType> arrays_;          // one entry per ending; dtype and shape of arrays
  std::vector<FieldType> types_;
  detail::ClassList classes_;
  std::optional<detail::TarKinds> kinds_;
  std::vector<std::string> class_names_;
  IgnoredFiles ignored_;
  std::vector<std::string> notes_;
};

const Registered<SourceKind> kWebDataset{
    "webdataset",
    {"shards", "picture", "label", "fields", "annotations"},
    "WebDataset's tars, also .tar.gz and .tar.zst: shards=PATTERN with {000..009} or {a,b} for several names "
    "(default: DIR/<split>/*.tar, DIR/<split>*.tar or DIR/*.tar), picture=ENDING of the picture's file (the first that "
    "is one), label=ENDING of the class's file (cls), fields=A:B "
    "endings of the files to keep, "
    "or none "
    "(all): .txt and .json as text, .npy as numbers, .seg.png as a mask, others as bytes; annotations=raw or upright: "
    "whether masks are in pixels of pictures as stored or as their EXIF turns them, where no size tells",
    [](const Spec& spec, const fs::path& input, const std::string& split) {
      return std::make_unique<WebDataset>(spec, detail::find_tars(spec, input, split));
    }};

}  // namespace
}  // namespace penstock
