// jsonl: reads lines of JSON objects, which name pictures' files with their classes and other values.
//
// The input is the list, or a folder with <split>.jsonl or one list for all. Paths are relative to the list's folder,
// or absolute. Line i is sample i of its split. "a.b" names the key b of the object a.
#include "loader/sources/lists/list_source.h"

namespace penstock {
namespace {

const Registered<SourceKind> kJsonLines{
    "jsonl", detail::list_keys({"file"}),
    "lines of JSON objects, DIR/<split>.jsonl or file=NAME in DIR; keys as csv's, and a.b for the key b of an object a",
    [](const Spec& spec, const std::filesystem::path& input, const std::string& split) {
      return detail::make_list_source(spec, detail::find_list(spec, input, split, ".jsonl"), split,
                                      detail::open_json_lines);
    }};

}  // namespace
}  // namespace penstock
