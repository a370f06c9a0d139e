// image-folder: reads a folder of class folders with JPEG or PNG files, which are recognised by their content.
//
// The files are in DIR/<split>/<class>/... when there is a folder for the split (for test one of test, val, valid,
// validation); otherwise in DIR/<class>/... for train and all. Split all unites train and test where these folders
// exist. test=NAME says which folder is that of split test where there are several. Where DIR has a folder for one
// split only, other folders with pictures beside it are refused.
//
// A folder that holds pictures and no folders is one class, named after it. Classes and files are sorted by name, byte
// by byte; a sample's id is its place in that order. A class folder without pictures is an error, except in split test,
// where it keeps the labels equal to those of the other split. Other files beside class folders, and everything hidden,
// are ignored and counted.
#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <memory>

#include "core/error.h"
#include "core/regular_file.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/detail/checksum.h"
#include "loader/detail/input_file.h"
#include "loader/sources/source.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// The largest file that is read. A PNG takes up to 8 bytes per pixel (four channels of 16 bits, not compressed) and
/// may have up to kMaxPixels of them; a ninth byte per pixel is for metadata. That is 2.4 GB.
constexpr uint64_t kMaxPictureBytes = 9 * uint64_t{kMaxPixels};

const std::vector<std::string> kTestNames{"test", "val", "valid", "validation"};

bool is_test_name(const std::string& name) {
  return std::find(kTestNames.begin(), kTestNames.end(), name) != kTestNames.end();
}

/// Returns the folder of split test, one of `names`. Throws config_error when there are two, because only the user can
/// say which one is meant.
std::optional<fs::path> test_folder(const fs::path& input, const std::vector<std::string>& names) {
  std::optional<fs::path> found;
  for (const auto& candidate : names) {
    if (!fs::is_directory(input / candidate)) continue;
    if (found) {
      throw config_error(concat(input.string(), ": has both ", found->filename().string(), " and ", candidate,
                                "; expected one folder for split test, or image-folder(test=", candidate, ")"));
    }
    found = input / candidate;
  }
  return found;
}

/// Whether any file below `folder` has a picture's name. A folder that may not be read holds none that could be packed.
bool holds_pictures(const fs::path& folder) {
  std::error_code failure;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, failure);
  for (; !failure && at != fs::recursive_directory_iterator(); at.increment(failure)) {
    std::error_code ignored;  // what cannot be looked at is no picture
    if (has_picture_extension(at->path()) && at->is_regular_file(ignored)) return true;
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

/// Whether a file is a picture by its first bytes or by its name. The name counts so that a broken file called .jpg is
/// not silently skipped.
bool is_picture(const fs::path& path) {
  if (has_picture_extension(path)) return true;
  std::array<char, 8> first{};
  std::ifstream file(path, std::ios::binary);
  file.read(first.data(), first.size());
  try {
    detect_encoding({reinterpret_cast<const uint8_t*>(first.data()), static_cast<size_t>(file.gcount())});
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The regular files below `folder`, at any depth, sorted. Counts hidden files (other programs' leftovers) and what is
/// neither file nor folder (pipes, dangling links, and links to folders, which are not followed). Throws io_error for a
/// picture's name on anything that is not a regular file.
std::vector<fs::path> files_below(const fs::path& folder, uint64_t& ignored_count) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().filename().native()[0] == '.')
      ++ignored_count;
    else if (entry.is_regular_file())
      files.push_back(entry.path());
    else if (has_picture_extension(entry.path()))
      throw io_error(concat(entry.path().string(), ": no regular file; expected a picture, as its name says"));
    else if (!entry.is_directory() || entry.is_symlink())
      ++ignored_count;
  }
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return files;
}

/// The class folders of one root, by name; hidden folders are not among them. Counts what else is there, a hidden
/// folder as one.
std::map<std::string, fs::path> class_folders(const fs::path& root, uint64_t& ignored_count) {
  std::map<std::string, fs::path> folders;
  uint64_t beside_count = 0;
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && name[0] != '.')
      folders.emplace(name, entry.path());
    else
      ++beside_count;
  }
  if (!folders.empty()) {
    ignored_count += beside_count;
  } else {
    const fs::path whole = fs::canonical(root);  // so that "." and "DIR/" have a name
    folders.emplace(whole.filename().string(), root);
  }
  return folders;
}

class ImageFolder final : public Source {
 public:
  ImageFolder(const fs::path& input, const std::string& split, const std::vector<std::string>& test_names)
      : input_(input) {
    const auto roots = roots_of(input, split, test_names);
    std::vector<std::map<std::string, fs::path>> folders;
    std::map<std::string, int64_t> labels;
    for (const auto& root : roots) {
      folders.push_back(class_folders(root, ignored_count_));
      for (const auto& [name, folder] : folders.back()) labels.emplace(name, 0);
    }
    for (auto& [name, label] : labels) {
      label = static_cast<int64_t>(class_names_.size());
      class_names_.push_back(name);
    }
    std::vector<uint64_t> counts(class_names_.size());
    for (const auto& of_root : folders)
      for (const auto& [name, folder] : of_root)
        counts[static_cast<size_t>(labels.at(name))] += add_class(folder, labels.at(name));
    if (split != "test" && !files_.empty()) check_counts(roots.front(), counts);
  }

  uint64_t size() const override { return files_.size(); }
  std::vector<std::string> class_names() const override { return class_names_; }
  int64_t label(uint64_t index) const override { return files_[index].label; }

  SourceSample read(uint64_t index) const override {
    const auto& path = files_[index].path;
    auto bytes = read_file(path, kMaxPictureBytes);
    try {
      const Encoding encoding = detect_encoding(bytes);
      const Extent extent = codec_for(encoding).probe(bytes);
      return {std::move(bytes), encoding, extent};
    } catch (const Error& error) {
      throw Error(error.kind(), concat(path.string(), ": ", error.what()));
    }
  }

  std::string fingerprint() const override {
    std::string hash;  // chained, because a text of all names would be larger than everything else that pack() holds
    for (const auto& file : files_) {
      const std::string text = hash + detail::file_fingerprint(file.path);
      hash = detail::xxh3_hex({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
    }
    return hash;
  }
  std::string where(uint64_t index) const override { return files_[index].path.string(); }
  std::string path(uint64_t index) const override { return files_[index].path.lexically_relative(input_).string(); }
  uint64_t ignored_count() const override { return ignored_count_; }

 private:
  struct File {
    fs::path path;
    int64_t label;
  };

  /// Throws io_error when a class has no pictures, because a model would get an output for it that is never trained.
  /// The message names the first such class and the number of the others.
  void check_counts(const fs::path& root, const std::vector<uint64_t>& counts) const {
    const auto empty = std::find(counts.begin(), counts.end(), 0);
    if (empty == counts.end()) return;
    const auto others = std::count(empty, counts.end(), 0) - 1;
    throw io_error(concat((root / class_names_[static_cast<size_t>(empty - counts.begin())]).string(),
                          ": a class folder without pictures", others > 0 ? concat(" (and ", others, " more)") : "",
                          "; expected one picture or more, or no such folder"));
  }

  /// Adds the pictures in `folder`. Returns their number.
  uint64_t add_class(const fs::path& folder, int64_t label) {
    const size_t count_before = files_.size();
    for (auto& path : files_below(folder, ignored_count_)) {
      if (is_picture(path))
        files_.push_back({std::move(path), label});
      else
        ++ignored_count_;
    }
    return files_.size() - count_before;
  }

  fs::path input_;
  std::vector<std::string> class_names_;
  std::vector<File> files_;
  uint64_t ignored_count_ = 0;
};

const Registered<SourceKind> kImageFolder{
    "image-folder",
    {"test"},
    "JPEG and PNG files in one folder per class, DIR/<split>/<class>/ or DIR/<class>/: test=NAME of the folder for "
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
