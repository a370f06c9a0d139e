// Kept checkpoints: names, links, and which files go.
#include "train/checkpoint/kept_checkpoints.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/error.h"
#include "core/number.h"
#include "core/text.h"
#include "train/options/options_file.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

const std::string kStepPrefix = "checkpoint-step-", kSuffix = ".safetensors";

/// The step in checkpoint-step-<step>.safetensors; none for any other name.
std::optional<int64_t> step_in(const std::string& name) {
  if (!name.starts_with(kStepPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  std::string_view step(name);
  step.remove_suffix(kSuffix.size());
  step.remove_prefix(std::min(kStepPrefix.size(), step.size()));
  return parse_number<int64_t>(step);
}

void link_as_last(const fs::path& from, const fs::path& last) {
  const fs::path aside = last.string() + kCutShort;
  std::error_code failure;
  fs::remove(aside, failure);
  fs::create_hard_link(from, aside, failure);
  if (failure) fs::copy_file(from, aside, failure);
  if (!failure) fs::rename(aside, last, failure);
  if (failure) throw io_error(concat(last.string(), ": ", failure.message(), "; expected a file that can be written"));
}

void remove_file(const fs::path& path) {
  std::error_code failure;
  fs::remove(path, failure);
  if (failure) throw io_error(concat(path.string(), ": ", failure.message(), "; expected a file that can be removed"));
}

}  // namespace

bool is_checkpoint_name(const std::string& name) {
  const std::string whole = name.ends_with(kCutShort) ? name.substr(0, name.size() - std::strlen(kCutShort)) : name;
  return whole == kLastCheckpoint || whole == kBestCheckpoint || step_in(whole);
}

fs::path path_of_checkpoint(const fs::path& out, int64_t step, int64_t keep) {
  return out / (keep > 1 ? concat(kStepPrefix, step, kSuffix) : kLastCheckpoint);
}

std::vector<fs::path> checkpoints_in(const fs::path& out) {
  std::vector<fs::path> paths;
  std::error_code failure;
  if (!fs::exists(out, failure)) return paths;
  for (const auto& entry : fs::directory_iterator(out, failure))
    if (is_checkpoint_name(entry.path().filename().string())) paths.push_back(entry.path());
  if (failure) throw io_error(concat("--out ", out.string(), ": ", failure.message(), "; expected a readable folder"));
  std::sort(paths.begin(), paths.end());
  return paths;
}

void keep_checkpoints(const fs::path& out, int64_t step, int64_t keep) {
  if (keep > 1) link_as_last(path_of_checkpoint(out, step, keep), out / kLastCheckpoint);
  std::vector<int64_t> earlier;
  for (const auto& path : checkpoints_in(out)) {
    const auto other = step_in(path.filename().string());
    if (other && *other <= step) earlier.push_back(*other);
    if (other && *other > step) remove_file(path);
  }
  std::sort(earlier.rbegin(), earlier.rend());
  for (size_t i = keep > 1 ? static_cast<size_t>(keep) : 0; i < earlier.size(); ++i)
    remove_file(path_of_checkpoint(out, earlier[i], /*keep=*/2));
}

void check_has_options(const std::string& flag, const fs::path& folder) {
  if (has_options(folder) || checkpoints_in(folder).empty()) return;
  throw config_error(concat(flag, ": ", folder.string(),
                            " has checkpoints and no options.json, so that their data and ",
                            "options are not known; expected the folder of a run, or --resume ",
                            (folder / kLastCheckpoint).string(), " with all flags of the run"));
}

}  // namespace penstock
