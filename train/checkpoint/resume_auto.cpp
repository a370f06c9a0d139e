// --resume auto: the search in OUT, and whether what is there belongs to this run.
#include "train/checkpoint/resume_auto.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "train/checkpoint/last_checkpoint.h"
#include "train/options/emulated.h"
#include "train/options/options_file.h"
#include "train/tensor/out_of_memory.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// The data that a checkpoint was trained on are compared when they are open. Names are compared here, before they are
/// packed for minutes, and because checkpoints of earlier versions say nothing about them.
void check_same_data_name(const TrainOptions& options) {
  const auto data = text_in(read_options(options.out).at("data"));
  const std::string named = without_sim_link(options.data);
  std::error_code ignored;
  if (data == named || fs::equivalent(data, named, ignored)) return;
  throw config_error(concat("--resume auto: ", options.out.string(), " holds a run on data ", in_quotes(data),
                            "; expected ", in_quotes(named), ", as --data is, or another --out"));
}

}  // namespace

std::optional<Checkpoint> resume_if_possible(TrainOptions& options,
                                             const std::function<void(const std::string&)>& log) {
  auto found = naming_memory("--resume auto", "the tensors of a checkpoint", "a smaller model",
                             [&] { return last_whole_checkpoint(options.out, log); });
  if (!found) {
    log(concat("--resume auto: no checkpoint in ", options.out.string(), "; the run starts"));
    options.resume.clear();
    return std::nullopt;
  }
  check_same_data_name(options);
  options.resume = found->path;
  return std::move(found->checkpoint);
}

}  // namespace penstock
