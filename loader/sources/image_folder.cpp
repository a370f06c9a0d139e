// image-folder: reads a folder of class folders with JPEG, PNG, WebP, TIFF, GIF, BMP or PNM files, which are recognised
// by their content.
//
// The files are in DIR/<split>/<class>/... when there is a folder for the split (for test one of test, val, valid,
// validation); otherwise in DIR/<class>/... for train and all. Split all unites train and test where these folders
// exist. test=NAME says which folder is that of split test where there are several. Where DIR has a folder for one
// split only, other folders with pictures beside it are refused.
//
// The classes are those of train and test together, so that a label means the same in every split. A class that train
// has no picture of is an error; test may lack classes. A folder that holds pictures and no folders is one class, named
// after it, or after train where neither has class folders. Classes and files are sorted by name, byte by byte; a
// sample's id is its place in that order. Other files beside class folders, and everything hidden, are ignored,
// counted and named. Links to folders are followed.
#include <algorithm>
#include <map>
#include <memory>

#include "core/error.h"
#include "core/text.h"
#include "loader/files/input_file.h"
#include "loader/import/picture_formats.h"
#include "loader/sources/picture_files.h"
#include "loader/sources/source.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kTestNames{"test", "val", "valid", "validation"};

bool is_test_name(const std::string& name) {
  return std::find(kTestNames.begin(), kTestNames.end(), name) != kTestNames.end();
}

/// The folders that are there of those that may be split test's.
std::vector<fs::path> test_folders(const fs::path& input, const std::vector<std::string>& names) {
  std::vector<fs::path> found;
  for (const auto& name : names)
    if (fs::is_directory(input / name)) found.push_back(input / name);
  return found;
}

/// Returns the folder of split test, one of `names`. Throws config_error when there are two, because only the user can
/// say which one is meant.
std::optional<fs::path> test_folder(const fs::path& input, const std::vector<std::string>& names) {
  const auto found = test_folders(input, names);
  if (found.size() > 1) {
    const std::string first = found[0].filename().string(), second = found[1].filename().string();
    throw config_error(concat(input.string(), ": has both ", first, " and ", second,
                              "; expected one folder for split test, or image-folder(test=", second, ")"));
  }
  return found.empty() ? std::nullopt : std::optional(found.front());
}

/// Whether any file below `folder` has a picture's name. A folder that may not be read holds none that could be packed.
bool holds_pictures(const fs::path& folder) {
  std::error_code failure;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, failure);
  for (; !failure && at != fs::recursive_directory_iterator(); at.increment(failure)) {
    std::error_code ignored;  // what cannot be looked at is no picture
    if (detail::is_picture_name(at->path()) && at->is_regular_file(ignored)) return true;
  }
  return false;
}

/// Throws config_error when `input` holds other folders with pictures beside `folder`, which is its only folder of a
/// split. `folder` may then be a class of that name, and they the other classes. Links and hidden folders do not count.
void refuse_other_folders(const fs::path& input, const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(input)) {
    const std::string name = folder.filename().string(), other = entry.path().filename().string();
    const bool is_of_a_split = other == "train" || other == "all" || is_test_name(other);
    if (is_of_a_split || other[0] == '.' || entry.is_symlink() || !entry.is_directory()) continue;
    if (holds_pictures(entry.path())) {
      throw config_error(concat(input.string(), ": has folders ", name, " and ", other, " with pictures; expected ",
                                "only folders of splits, or, where ", name, " is a class, all classes in a folder ",
                                name));
    }
  }
}

/// The folders that hold the class folders of `split`.
std::vector<fs::path> roots_of(const fs::path& input, const std::string& split,
                               const std::vector<std::string>& test_names) {
  const auto is_there = [&](const std::string& name) { return fs::is_directory(input / name); };
  const bool has_train = is_there("train");
  const bool has_test = std::any_of(kTestNames.begin(), kTestNames.end(), is_there) || is_there(test_names.front());
  const fs::path train = input / "train", all = input / "all";
  if (split == "train" && has_train) {
    if (!has_test) refuse_other_folders(input, train);
    return {train};
  }
  const auto test = test_folder(input, test_names);
  if (split == "test" && test) return {*test};
  if (split == "all" && has_train && test) return {train, *test};
  if (split == "all" && is_there("all")) {
    refuse_other_folders(input, all);
    return {all};
  }
  if (split == "test" || has_train || test) {
    throw io_error(concat(input.string(), ": no folder for split ", split, "; expected ",
                          split != "test"          ? "train"
                          : test_names.size() == 1 ? test_names.front()
                                                   : "test, val, valid or validation",
                          " in it", split == "all" ? ", and test" : ""));
  }
  return {input};
}

/// The folders of the other splits of the data set, whose classes `split` shares. Where several folders may be that of
/// split test, none of them counts for the others: pack() compares the classes of what it packs one after the other.
std::vector<fs::path> other_roots(const fs::path& input, const std::string& split, const std::vector<fs::path>& roots,
                                  const std::vector<std::string>& test_names) {
  std::vector<fs::path> others;
  if (split == "test") {
    const fs::path train = input / "train";
    others.push_back(fs::is_directory(train) ? train : input / "all");
  } else if (const auto found = test_folders(input, test_names); found.size() == 1) {
    others.push_back(found.front());
  }
  std::erase_if(others, [&](const fs::path& other) {
    return !fs::is_directory(other) || std::find(roots.begin(), roots.end(), other) != roots.end();
  });
  return others;
}

/// The class folders of one root, by name; hidden folders are not among them, but among `beside`, as is all else.
std::map<std::string, fs::path> class_folders(const fs::path& root, std::vector<fs::path>& beside) {
  std::map<std::string, fs::path> folders;
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;  // a link that leads nowhere, or to itself, is no folder
    if (entry.is_directory(ignored) && name[0] != '.')
      folders.emplace(name, entry.path());
    else
      beside.push_back(entry.path());
  }
  return folders;
}

/// The name of a folder, also of "." and "DIR/".
std::string name_of(const fs::path& folder) { return fs::canonical(folder).filename().string(); }

class ImageFolder final : public Source {
 public:
  ImageFolder(const fs::path& input, const std::string& split, const std::vector<std::string>& test_names)
      : input_(input) {
    const auto roots = roots_of(input, split, test_names), others = other_roots(input, split, roots, test_names);
    std::map<std::string, int64_t> labels;
    std::vector<fs::path> unused;
    for (const auto& root : others)
      for (const auto& [name, folder] : class_folders(root, unused)) labels.emplace(name, 0);
    const auto folders =
        own_folders(roots, split == "test" && !others.empty() ? others.front() : roots.front(), labels);
    for (auto& [name, label] : labels) {
      label = static_cast<int64_t>(class_names_.size());
      class_names_.push_back(name);
    }
    counts_.resize(class_names_.size());
    for (const auto& of_root : folders)
      for (const auto& [name, folder] : of_root)
        counts_[static_cast<size_t>(labels.at(name))] += add_class(folder, labels.at(name));
    if (split != "test" && !files_.empty()) check_counts(roots, others);
  }

  uint64_t size() const override { return files_.size(); }
  std::vector<std::string> class_names() const override { return class_names_; }
  int64_t label(uint64_t index) const override { return files_[index].label; }

  SourceSample read(uint64_t index) const override { return detail::read_picture(files_[index].path); }

  std::string fingerprint() const override {
    detail::Fingerprint fingerprint;
    for (const auto& file : files_) fingerprint.add(file.path);
    std::string text = fingerprint.text();
    for (size_t label = 0; label < counts_.size(); ++label)  // the names of the others are in the paths of their files
      if (counts_[label] == 0) text += concat("class ", label, " ", class_names_[label], "\n");
    return text;
  }
  std::string where(uint64_t index) const override { return files_[index].path.string(); }
  std::string path(uint64_t index) const override { return files_[index].path.lexically_relative(input_).string(); }
  IgnoredFiles ignored() const override { return ignored_; }

 private:
  struct File {
    fs::path path;
    int64_t label;
  };

  /// The class folders of each root, which it adds to `labels`. A root that holds only pictures is one class, named
  /// after it, or after `first` where no folder of the data set has class folders.
  std::vector<std::map<std::string, fs::path>> own_folders(const std::vector<fs::path>& roots, const fs::path& first,
                                                           std::map<std::string, int64_t>& labels) {
    std::vector<std::map<std::string, fs::path>> folders;
    for (const auto& root : roots) {
      std::vector<fs::path> beside;
      folders.push_back(class_folders(root, beside));
      if (folders.back().empty()) beside.clear();  // they are what there is
      for (const auto& path : beside) ignored_.add(path.lexically_relative(input_).string());
      for (const auto& [name, folder] : folders.back()) labels.emplace(name, 0);
    }
    const bool has_no_classes = labels.empty();
    for (size_t i = 0; i < roots.size(); ++i) {
      if (!folders[i].empty()) continue;
      const std::string name = name_of(has_no_classes ? first : roots[i]);
      folders[i].emplace(name, roots[i]);
      labels.emplace(name, 0);
    }
    return folders;
  }

  /// Throws io_error when a class has no pictures, because a model would get an output for it that is never trained.
  /// The message names the first such class and the number of the others.
  void check_counts(const std::vector<fs::path>& roots, const std::vector<fs::path>& others) const {
    const auto empty = std::find(counts_.begin(), counts_.end(), 0);
    if (empty == counts_.end()) return;
    const std::string& name = class_names_[static_cast<size_t>(empty - counts_.begin())];
    const auto more_count = std::count(empty, counts_.end(), 0) - 1;
    const std::string more = more_count > 0 ? concat(" (and ", more_count, " more)") : "";
    for (const auto& other : others) {
      if (fs::is_directory(roots.front() / name) || !fs::is_directory(other / name)) continue;
      throw io_error(concat((other / name).string(), ": a class that ", roots.front().string(), " lacks", more,
                            "; expected pictures of it there too, or no such folder"));
    }
    throw io_error(concat((roots.front() / name).string(), ": a class folder without pictures", more,
                          "; expected one picture or more, or no such folder"));
  }

  /// Adds the pictures in `folder`. Returns their number.
  uint64_t add_class(const fs::path& folder, int64_t label) {
    const size_t count_before = files_.size();
    for (auto& path : detail::pictures_below(folder, input_, ignored_)) files_.push_back({std::move(path), label});
    return files_.size() - count_before;
  }

  fs::path input_;
  std::vector<std::string> class_names_;
  std::vector<uint64_t> counts_;  // one entry per class: its pictures in this split
  std::vector<File> files_;
  IgnoredFiles ignored_;
};

const Registered<SourceKind> kImageFolder{
    "image-folder",
    {"test"},
    "JPEG, PNG, WebP, TIFF, GIF, BMP or PNM files in one folder per class, DIR/<split>/<class>/ or DIR/<class>/: "
    "test=NAME "
    "of the folder for "
    "split test (default: the one of test, val, valid or validation that exists)",
    [](const Spec& spec, const fs::path& input, const std::string& split) {
      const std::string name = spec.get("test", "");
      const bool is_one = name != "." && name != ".." && name.find('/') == std::string::npos;
      if (!is_one || name == "train" || name == "all")
        throw config_error(
            concat(spec.where(), ": test is ", in_quotes(name), "; expected the name of a folder beside train"));
      return std::make_unique<ImageFolder>(detail::input_folder("image-folder", input), split,
                                           name.empty() ? kTestNames : std::vector{name});
    }};

}  // namespace
}  // namespace penstock
