// Kept checkpoints: the last ones of a run, and their names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

inline constexpr const char* kLastCheckpoint = "checkpoint-last.safetensors";
inline constexpr const char* kBestCheckpoint = "checkpoint-best.safetensors";
inline constexpr const char* kCutShort = ".tmp";  ///< Ends the name of a file while it is written.

/// Whether a file of this name is a checkpoint, or one whose writing was cut short.
bool is_checkpoint_name(const std::string& name);

/// Where the checkpoint of `step` is written if `keep` checkpoints are kept: OUT/checkpoint-last.safetensors, or with
/// more than one OUT/checkpoint-step-<step>.safetensors, so that no file is replaced that is still needed.
std::filesystem::path path_of_checkpoint(const std::filesystem::path& out, int64_t step, int64_t keep);

/// To be called when the file of path_of_checkpoint() is whole: it becomes checkpoint-last.safetensors as well (a hard
/// link, or a copy where the file system has none), and all step files are removed except the `keep` last ones up to
/// `step`. Later steps are those of a future that the run has left by going on from an earlier checkpoint. Throws
/// io_error.
void keep_checkpoints(const std::filesystem::path& out, int64_t step, int64_t keep);

/// The files of OUT with such names, sorted by name; none if there is no such folder. Throws io_error.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& out);

/// Throws config_error `<flag>: FOLDER has checkpoints and no options.json ...`: their data and options are then not
/// known.
void check_has_options(const std::string& flag, const std::filesystem::path& folder);

}  // namespace penstock
