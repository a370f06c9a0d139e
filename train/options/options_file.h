// options.json: the flags of a run, in its folder, from which it is resumed and evaluated.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "train/options/options.h"

namespace penstock {

/// The text of options.json: one key per flag, spelt like the flag, sorted. Texts that are not UTF-8, as paths may be,
/// are as json_of() has them.
std::string to_json(const TrainOptions& options);

/// Reads the options.json in the folder of a run. Errors: io_error if it is not there or no regular file, corrupt_error
/// if it does not hold the options of a run, of this or an earlier version.
nlohmann::json read_options(const std::filesystem::path& folder);

/// Whether something has the name FOLDER/options.json.
bool has_options(const std::filesystem::path& folder);

/// A JSON text from which text_in() makes the same bytes: UTF-8 as it is, other bytes as
/// {"percent-encoded": "caf%E9"}.
nlohmann::json json_of(const std::string& text);

/// Throws nlohmann::json::exception for what is neither.
std::string text_in(const nlohmann::json& json);

}  // namespace penstock
