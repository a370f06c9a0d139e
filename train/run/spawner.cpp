// Spawner: the commands of the ranks, and restarts.
#include "train/run/spawner.h"

#include <iostream>

#include "core/text.h"
#include "train/checkpoint/kept_checkpoints.h"
#include "train/checkpoint/last_checkpoint.h"
#include "train/launch/environment.h"
#include "train/launch/recovery.h"
#include "train/launch/spawn.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// The arguments of a rank: those of this process, without what is for this process alone.
std::vector<std::string> arguments_of_ranks(std::vector<std::string> arguments) {
  for (const char* flag : {"--max-restarts", "--hostfile", "--include", "--exclude"})
    arguments = without_flag(std::move(arguments), flag);
  return without_flag(std::move(arguments), "--dry-run", /*has_value=*/false);
}

std::vector<RankCommand> commands_of(const TrainOptions& options, const World& world,
                                     const std::vector<std::string>& arguments) {
  if (world.hosts.empty()) return local_ranks(world.rendezvous.world_size, arguments);
  const bool has_place = options.dist_url.starts_with("tcp://");
  return ssh_ranks(world.hosts, has_place ? without_flag(arguments, "--dist-url") : arguments,
                   has_place ? parse_dist_url(options.dist_url) : std::pair<std::string, int>(),
                   options.timeout_seconds);
}

/// Tells the checkpoints of an earlier run, which is still in OUT until the first rank has opened it, from this run's.
std::optional<fs::file_time_type> time_of_last_checkpoint(const fs::path& out) {
  std::optional<fs::file_time_type> latest;
  for (const char* name : {kLastCheckpoint, kBestCheckpoint}) {
    std::error_code failure;
    const auto time = fs::last_write_time(out / name, failure);
    if (!failure && (!latest || time > *latest)) latest = time;
  }
  return latest;
}

/// "step 40 in runs/a/checkpoint-last.safetensors". The ranks will say which files they pass over.
std::string where_it_goes_on(const fs::path& out) {
  const auto found = last_whole_checkpoint(out, [](const std::string&) {});
  return found ? concat("step ", found->checkpoint.info.position.step, " in ", found->path.string()) : "the start";
}

}  // namespace

int spawn(const Setup& setup, const TrainOptions& given, std::vector<std::string> arguments) {
  const fs::path& out = setup.options.out;
  if (given.out.empty()) {  // the default contains the time, which each rank would read for itself
    arguments.push_back("--out");
    arguments.push_back(out.string());
  }
  arguments = arguments_of_ranks(std::move(arguments));
  auto going_on = without_flag(arguments, "--resume");
  going_on.insert(going_on.end(), {"--resume", "auto"});
  const auto before = time_of_last_checkpoint(out);
  bool has_saved = given.resumes_if_possible();
  for (int restart = 1;; ++restart) {
    const RanksEnd end = run_ranks(commands_of(given, setup.world, has_saved ? going_on : arguments));
    if (!end.may_go_on || restart > given.max_restarts) {
      if (!end.last_line.empty()) std::cerr << end.last_line << std::endl;
      return end.code;
    }
    const auto now = time_of_last_checkpoint(out);  // none: the files of an earlier run were removed
    has_saved = has_saved || (now && now != before);
    std::cerr << concat("launch: ", end.cause, "; restart ", restart, " of ", given.max_restarts, ", from ",
                        has_saved ? where_it_goes_on(out) : "where the run began", "\n")
              << std::flush;
    tell_failure(end.failed);
  }
}

std::string commands_text(const TrainOptions& options, const World& world, const std::vector<std::string>& arguments) {
  std::string text;
  const auto own = arguments_of_ranks(arguments);
  for (const auto& command : commands_of(options, world, own)) text += to_text(command) + "\n";
  return text;
}

}  // namespace penstock
