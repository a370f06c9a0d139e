// metadata-folder: Hugging Face's image folder: pictures beside a metadata.csv or metadata.jsonl, whose column
// file_name names them.
//
// The metadata is in DIR/<split>/, or in DIR where there is no folder for the split, then for train and all, or with
// the key split=COLUMN for every split. As with Hugging Face, the names of folders are no classes then.
#include <memory>

#include "core/error.h"
#include "core/text.h"
#include "loader/files/input_file.h"
#include "loader/sources/lists/list_source.h"
#include "loader/sources/split_names.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// The metadata in a folder. Throws io_error where there is none, or two.
fs::path metadata_in(const fs::path& root) {
  const fs::path lines = root / "metadata.jsonl", csv = root / "metadata.csv";
  const bool has_lines = fs::is_regular_file(lines), has_csv = fs::is_regular_file(csv);
  if (has_lines == has_csv)
    throw io_error(concat(root.string(),
                          has_csv ? ": has metadata.csv and metadata.jsonl" : ": no metadata.csv or metadata.jsonl",
                          "; expected one of them"));
  return has_csv ? csv : lines;
}

std::unique_ptr<Source> open_metadata(const Spec& spec, const fs::path& input, const std::string& split) {
  const auto own = detail::split_entry(input, split, "");
  if (!own && split == "test" && !spec.has("split"))
    throw io_error(concat(input.string(), ": no folder for split test; expected ",
                          join(detail::split_names(split), ", "), ", or the key split=COLUMN"));
  const fs::path root = own.value_or(input);
  detail::ListFile list{metadata_in(root), root, {}};
  if (own && split == "test")
    for (const char* name : {"metadata.csv", "metadata.jsonl"})
      if (fs::is_regular_file(input / "train" / name)) list.of_train = input / "train" / name;
  return detail::make_list_source(spec, std::move(list), split, [](const fs::path& file) {
    return file.extension() == ".csv" ? detail::open_csv(file, {}) : detail::open_json_lines(file);
  });
}

const Registered<SourceKind> kMetadataFolder{
    "metadata-folder", detail::list_keys({}),
    "Hugging Face's image folder, DIR/<split>/ or DIR/ with metadata.csv or metadata.jsonl; keys as jsonl's",
    [](const Spec& spec, const fs::path& input, const std::string& split) {
      return open_metadata(spec, detail::input_folder("metadata-folder", input), split);
    }};

}  // namespace
}  // namespace penstock
