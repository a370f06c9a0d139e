// join_sources(), open_source(): several data sets of one format as one source.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "loader/sources/source.h"

namespace penstock::detail {

/// The samples of `sources` one after the other; there is one for each of `inputs`. The classes are those of all,
/// sorted, or in the order of one that has all of them. Paths begin with the name of their input's folder,
/// and its number where two have one name. Throws config_error when only some have classes, or fields or raw pictures
/// differ.
std::unique_ptr<Source> join_sources(std::vector<std::unique_ptr<Source>> sources,
                                     const std::vector<std::filesystem::path>& inputs);

/// The source that `spec` names, of one input or of several.
std::unique_ptr<Source> open_source(const Spec& spec, const std::filesystem::path& input,
                                    const std::vector<std::filesystem::path>& more_inputs, const std::string& split);

}  // namespace penstock::detail
