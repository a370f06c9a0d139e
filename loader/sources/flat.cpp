// flat: reads a folder of pictures without classes, at any depth: for self-supervised training.
//
// The files are in DIR/<split>/ when there is a folder for the split (for test one of test, val, valid, validation);
// otherwise in DIR, for all, and for train where there are no folders of splits. They are sorted by path, byte by byte;
// a sample's id is its place in that order. Hidden files and other files are ignored and counted.
#include <memory>

#include "core/error.h"
#include "core/text.h"
#include "loader/files/input_file.h"
#include "loader/sources/picture_files.h"
#include "loader/sources/split_names.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// The folder of the split. DIR itself is all, and train where it has no folders of splits.
fs::path split_folder(const fs::path& input, const std::string& split) {
  if (const auto folder = detail::split_entry(input, split, "")) return *folder;
  const bool has_others = detail::split_entry(input, "test", "") || detail::split_entry(input, "all", "");
  if (split == "all" || (split == "train" && !has_others)) return input;
  throw io_error(concat(input.string(), ": no folder for split ", split, "; expected ",
                        join(detail::split_names(split), " or "), " in it"));
}

class Flat final : public Source {
 public:
  Flat(const fs::path& input, const std::string& split)
      : input_(input), files_(detail::pictures_below(split_folder(input, split), input, ignored_)) {}

  uint64_t size() const override { return files_.size(); }
  std::vector<std::string> class_names() const override { return {}; }
  int64_t label(uint64_t) const override { return 0; }
  SourceSample read(uint64_t index) const override { return detail::read_picture(files_[index]); }
  std::string fingerprint() const override {
    detail::Fingerprint fingerprint;
    for (const auto& file : files_) fingerprint.add(file);
    return fingerprint.text();
  }
  std::string where(uint64_t index) const override { return files_[index].string(); }
  std::string path(uint64_t index) const override { return files_[index].lexically_relative(input_).string(); }
  IgnoredFiles ignored() const override { return ignored_; }

 private:
  fs::path input_;
  IgnoredFiles ignored_;
  std::vector<fs::path> files_;
};

const Registered<SourceKind> kFlat{"flat",
                                   {},
                                   "pictures without classes in DIR/<split>/ or DIR/, at any depth (no keys)",
                                   [](const Spec&, const fs::path& input, const std::string& split) {
                                     return std::make_unique<Flat>(detail::input_folder("flat", input), split);
                                   }};

}  // namespace
}  // namespace penstock
