// The command line of `train plan-modes`: its own flags, and those of `train`.
#include "tools/train/plan/options.h"

#include <charconv>
#include <map>

#include "core/error.h"
#include "core/text.h"
#include "tools/cli.h"
#include "tools/train/flags/config_flags.h"
#include "tools/train/flags/flags.h"
#include "tools/train/flags/lists.h"
#include "train/options/check.h"
#include "train/run/program.h"

namespace penstock {
namespace {

constexpr const char* kUsualModes =
    "single,ddp,zero,zero(stage=2),mp(balance=time),pipeline(balance=time),pipeline(balance=time,micro-batches=8),"
    "pipeline(balance=time,schedule=zero-bubble)";

TrainOptions parse_train_flags(std::vector<std::string> words) {
  words.insert(words.begin(), "train");
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  TrainOptions train = parse_flags(static_cast<int>(words.size()), pointers.data());
  check(train, arch_names(), mode_names(), optimizer_names());
  return train;
}

void check_train_flags(const TrainOptions& train) {
  const auto refuse = [](const std::string& flag, const char* expected) {
    throw config_error(concat(flag, ": cannot be given to plan-modes; expected ", expected));
  };
  if (train.mode.text() != TrainOptions().mode.text()) refuse(concat("--mode ", train.mode), "--modes");
  if (train.device == "cuda" || train.gpu >= 0)
    refuse(train.gpu >= 0 ? concat("--gpu ", train.gpu) : "--device cuda", "--device cpu: it measures processors");
  if (train.exact_shards > 0) refuse(concat("--exact ", train.exact_shards), "no --exact, of which nothing is known");
  if (train.is_resident) refuse("--resident", "no --resident, of which nothing is known");
  if (train.only_evaluates) refuse("--evaluate", "no --evaluate: it says how fast a run trains");
  if (train.prints_schedule || train.prints_config) refuse("--print-schedule and --print-config", "one of the three");
  if (train.only_checks || train.only_prints_commands) refuse("--check and --dry-run", "one of the three");
  if (train.predicted_step_ns > 0) refuse("--predicted-step", "no --predicted-step: it makes the prediction");
  if (!train.resume.empty()) refuse(concat("--resume ", train.resume.string()), "no --resume");
  if (train.hosting != "processes") refuse("--hosting " + train.hosting, "ranks that are processes");
  if (!train.hostfile.empty()) refuse(concat("--hostfile ", train.hostfile.string()), "--nproc");
  if (train.rank >= 0 || train.world_size > 0) refuse("--rank and --world-size", "--nproc");
}

}  // namespace

double parse_memory(const std::string& flag, const std::string& text) {
  static const std::map<std::string, double> units{{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}};
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto unit = units.find(std::string(end, text.data() + text.size()));
  if (failure != std::errc() || unit == units.end() || !(value > 0) || value > 1e6)
    throw config_error(concat(flag, " is ", in_quotes(text), "; expected a number with its unit, as 16GB or 900MB"));
  return value * unit->second;
}

PlanOptions parse_plan_options(int argc, char** argv) {
  PlanOptions options;
  std::string modes = kUsualModes, ranks = "1,2", memory;
  CLI::App app(
      "Says how long a step of each mode would take and how much memory its ranks would have, from measurements of "
      "less than a minute on this machine: blocks of the model alone and beside the other cores' work, updates, sums, "
      "messages and the loader. All other flags of `train` may be given too. The last line is the command of the "
      "fastest mode.",
      "train plan-modes");
  app.get_formatter()->column_width(34);
  app.allow_extras();
  app.add_option("--modes", modes, concat("modes, separated by commas: ", join(mode_names())))->capture_default_str();
  app.add_option("--nproc", ranks, "numbers of ranks, for example 1,2,4")->capture_default_str();
  app.add_option("--memory", memory, "what a rank may take, for example 16GB: modes that need more do not count");
  app.add_option("--machine", options.machine,
                 "do not measure, but take what --save-machine has written, here or on another machine");
  app.add_option("--save-machine", options.save_machine, "write what was measured into this file");
  app.add_option("--json", options.json, "write the predictions into this file, too");
  app.add_option("--measure-into", options.measured)->group("");  // what plan-modes tells the ranks that measure
  parse_command_line(app, argc, argv);

  options.passed_on = app.remaining();
  options.modes = parse_modes(modes);
  options.ranks = parse_counts("--nproc", ranks, 1, "1,2");
  if (app.count("--memory") > 0) options.memory_bytes = parse_memory("--memory", memory);
  if (!options.machine.empty() && !options.save_machine.empty())
    throw config_error(concat("--save-machine is ", options.save_machine.string(), " with --machine ",
                              options.machine.string(), "; expected one of the two"));
  std::vector<std::string> words = options.passed_on;
  words.insert(words.begin(), "train");
  words = with_config(words, {"mode", "nproc"});
  options.passed_on = {words.begin() + 1, words.end()};
  options.train = parse_train_flags(options.passed_on);
  check_train_flags(options.train);
  options.train.device = "cpu";
  return options;
}

}  // namespace penstock
