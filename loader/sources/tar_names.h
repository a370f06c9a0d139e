// The names in WebDataset's tars, and of them: keys, endings, patterns and the tars of a split.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/spec.h"

namespace penstock::detail {

/// "a/b.seg.png" -> "a/b" and "seg.png", in lower case. The ending is "" for a file without one and for a hidden file.
std::pair<std::string, std::string> key_and_ending(const std::string& path);

/// Whether `ending` equals `last` or ends with "." followed by it.
bool has_last_ending(std::string_view ending, std::string_view last);

/// The name of a tar without its ending, which may be that of a compressed one; nothing for another file.
std::optional<std::string> tar_stem(const std::string& name);

/// Whether files of this ending hold Python objects.
bool is_pickle_ending(std::string_view ending);

/// The name of the field for each ending: "seg" for "seg.png", "txt" for "txt"; the whole ending where two would have
/// one name.
std::vector<std::string> field_names(const std::vector<std::string>& endings);

/// "x-{00..02}.tar" -> x-00.tar, x-01.tar, x-02.tar, and "{a,b}.tar" -> a.tar, b.tar; several pairs of braces give all
/// combinations. Throws config_error `<where>: the pattern ...` for braces that do not fit, and for more than 10^6
/// names.
std::vector<std::string> expand_braces(const std::string& where, const std::string& pattern);

/// The tars of a split, sorted; one or more. Throws config_error, io_error.
std::vector<std::filesystem::path> find_tars(const Spec& spec, const std::filesystem::path& input,
                                             const std::string& split);

}  // namespace penstock::detail
