// csv: reads a table of pictures' files with their classes and other columns. RFC 4180 with a row of column names.
//
// The input is the list, or a folder with <split>.csv or one list for all. Paths are relative to the list's folder, or
// absolute. Row i is sample i of its split.
#include "core/error.h"
#include "core/text.h"
#include "loader/sources/lists/list_source.h"

namespace penstock {
namespace {

std::optional<char> separator_of(const Spec& spec) {
  const std::string text = spec.get("separator", "");
  if (!spec.has("separator")) return {};
  if (text == "comma") return ',';
  if (text == "tab") return '\t';
  if (text == "semicolon") return ';';
  throw config_error(concat(spec.where(), ": separator is ", in_quotes(text), "; expected comma, semicolon or tab"));
}

const Registered<SourceKind> kCsv{
    "csv", detail::list_keys({"file", "separator"}),
    "a table of pictures, DIR/<split>.csv or file=NAME in DIR: " + detail::list_help() +
        "; separator=comma, semicolon or tab (the one that the names of the columns have)",
    [](const Spec& spec, const std::filesystem::path& input, const std::string& split) {
      const auto separator = separator_of(spec);
      return detail::make_list_source(spec, detail::find_list(spec, input, split, ".csv"), split,
                                      [&](const auto& file) { return detail::open_csv(file, separator); });
    }};

}  // namespace
}  // namespace penstock
