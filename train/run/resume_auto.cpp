// --resume auto: the search in OUT, and whether what is there belongs to this run.
#include "train/run/resume_auto.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "train/last_checkpoint.h"
#include "train/out_of_memory.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// A checkpoint names its arch, but of its data only their size. Whoever types the path of a checkpoint has looked at
/// it; with auto nobody has, so the data are compared with those in options.json.
void check_same_data(const TrainOptions& options) {
  const fs::path path = options.out / "options.json";
  std::ifstream file(path);
  const auto earlier = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!earlier.is_object() || !earlier.contains("data") || !earlier["data"].is_string())
    throw corrupt_error(concat(path.string(), ": no data in it; expected the options of the run whose checkpoints are ",
                               "beside it, or --resume FILE"));
  const auto data = earlier["data"].get<std::string>();
  std::error_code ignored;
  if (data == options.data || fs::equivalent(data, options.data, ignored)) return;
  throw config_error(concat("--resume auto: ", options.out.string(), " holds a run on data ", in_quotes(data),
                            "; expected ", in_quotes(options.data), ", as --data is, or another --out"));
}

}  // namespace

std::optional<Checkpoint> resume_if_possible(TrainOptions& options,
                                             const std::function<void(const std::string&)>& say) {
  auto found = naming_memory("--resume auto", "the tensors of a checkpoint", "a smaller model",
                             [&] { return last_whole_checkpoint(options.out, say); });
  if (!found) {
    say(concat("--resume auto: no checkpoint in ", options.out.string(), "; the run starts"));
    options.resume.clear();
    return std::nullopt;
  }
  check_same_data(options);
  options.resume = found->path;
  return std::move(found->checkpoint);
}

}  // namespace penstock
