// The last whole checkpoint: the files of OUT by their steps, and the first of them that can be read.
#include "train/checkpoint/last_checkpoint.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "train/checkpoint/kept_checkpoints.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// What the header of a file says, whose tensors may still be damaged.
struct Candidate {
  fs::path path;
  Position position;

  /// The later checkpoint has the greater one. Where a run stopped before an evaluation and went on, two files have the
  /// same step, and the one that was written after the evaluation has the greater epoch.
  auto order() const { return std::tuple(position.step, position.epoch, path.filename() == kLastCheckpoint); }
};

/// With --keep the last checkpoint has two names.
bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

}  // namespace

std::optional<FoundCheckpoint> last_whole_checkpoint(const fs::path& out,
                                                     const std::function<void(const std::string&)>& log) {
  std::vector<fs::path> passed_over;
  const auto pass_over = [&](const fs::path& path, const std::string& why) {
    for (const auto& other : passed_over)
      if (is_same_file(other, path)) return;
    passed_over.push_back(path);
    log(concat("--resume auto passes over ", why));
  };
  std::vector<Candidate> candidates;
  for (const auto& path : checkpoints_in(out)) {
    if (path.extension() == kCutShort) {
      log(concat("--resume auto passes over ", path.string(), ": its writing was cut short"));
      continue;
    }
    try {
      candidates.push_back({path, load_checkpoint_info(path).position});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorrupt) throw;
      pass_over(path, error.what());
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.order() > b.order(); });
  for (const auto& [path, position] : candidates) {
    try {
      return FoundCheckpoint{path, load_checkpoint(path)};
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorrupt) throw;
      pass_over(path, error.what());
    }
  }
  if (!passed_over.empty())
    throw corrupt_error(concat("--resume auto: ", out.string(), ": none of its checkpoints is whole; expected one, or ",
                               "another --out to start anew"));
  return std::nullopt;
}

}  // namespace penstock
