// shardprep plan: measures on this machine which form of storing feeds a training that is to come.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "core/choice.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/batch/option_names.h"
#include "loader/pack/list.h"
#include "loader/pack/storage_plan.h"
#include "loader/shards/dataset.h"
#include "loader/sources/source.h"
#include "tools/cli.h"
#include "tools/plugins.h"
#include "tools/shardprep/commands.h"
#include "tools/shardprep/excerpt.h"
#include "tools/shardprep/form_rates.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostTarget = 1'000'000'000;  // images/s: more than all GPUs of a cluster take

struct PlanArguments {
  std::string source, input, split = "train", data, augment, sixteen_bit = "refuse";
  std::vector<std::string> plugins;
  double target = 0, link = 0;  // images/s, MB/s
  int nodes = 1;
  uint64_t sample_count = 0;
  LoaderOptions loader;
};

void check(const PlanArguments& arguments) {
  if (!(arguments.target > 0 && arguments.target <= kMostTarget))
    throw config_error(concat("--target: is ", arguments.target, "; expected images per second, more than 0 and up to ",
                              grouped(kMostTarget)));
  if (!(arguments.link >= 0 && std::isfinite(arguments.link)))
    throw config_error(concat("--link: is ", arguments.link, "; expected MB/s, or 0 for no limit"));
  if (arguments.nodes < 1) throw config_error(concat("--nodes: is ", arguments.nodes, "; expected 1 or more"));
  if (arguments.source.empty() == arguments.data.empty()) {
    throw config_error(
        concat("plan: ", arguments.source.empty() ? "neither --source nor --data" : "both --source and --data",
               "; expected one of the two"));
  }
}

/// The source that is planned for, its name, and how a command of pack begins; "" where nothing is to be done.
struct Planned {
  std::shared_ptr<const Source> source;
  std::string name, command;
};

Planned planned(const PlanArguments& arguments) {
  const std::string split = split_of_name(arguments.split);
  if (!arguments.data.empty()) {
    const auto folders = split_folders(arguments.data, split);
    const Manifest manifest = read_manifest(folders.front());
    auto source = packed_source(folders.front());
    if (source->raw_extent()) return {std::move(source), manifest.source, ""};
    // Tars keep labels and fields, which a folder of files does not.
    return {std::move(source), manifest.source,
            concat("shardprep export ", arguments.data, " --split ", split,
                   " --to webdataset --out FILES && shardprep pack --source webdataset --input FILES --split ", split)};
  }
  const Spec spec = parse_spec(SourceKind::kName, arguments.source);
  std::string command = concat("shardprep pack --source '", spec.text(), "'");
  if (!arguments.input.empty()) command += concat(" --input ", arguments.input);
  return {SourceRegistry::make(spec, arguments.input, split), spec.text(), concat(command, " --split ", split)};
}

std::string rate(double images_per_second) { return grouped(static_cast<uint64_t>(std::lround(images_per_second))); }

void print_table(const PlanArguments& arguments, const FormSample& sample, const StoragePlan& plan, uint64_t size) {
  const int cores = usable_cores();
  std::printf("%s, measured on %s with %s; %s%s\n\n", count_text(size, "image").c_str(),
              grouped(sample.sample_count).c_str(), sample.augment.c_str(),
              count_text(static_cast<uint64_t>(cores), "core").c_str(),
              sample.other_cores > kLeastOtherCores ? others_text(sample.other_cores, cores).c_str() : "");
  std::printf("%-28s pixels  bytes/image      all  images/s per node with workers\n", "pack with");
  for (const auto& form : sample.forms) {
    std::string rates;
    for (const auto& [workers, images] : form.rates) rates += concat("  ", workers, ": ", rate(images));
    std::printf("%-28s %-6s %12s %8s%s\n", form.flags.c_str(), form.has_same_pixels ? "same" : "other",
                grouped(static_cast<uint64_t>(form.image_bytes)).c_str(),
                byte_text(static_cast<uint64_t>(form.image_bytes * static_cast<double>(size))).c_str(), rates.c_str());
  }
  if (arguments.link > 0) {
    std::printf("\nthe link of %s MB/s per node allows", concat(arguments.link).c_str());
    for (size_t i = 0; i < sample.forms.size(); ++i)
      std::printf("%s %s images/s (%s)", i > 0 ? "," : "", rate(plan.forms[i].link_most).c_str(),
                  sample.forms[i].flags.c_str());
    std::printf("\n");
  }
  std::fflush(stdout);
}

[[noreturn]] void refuse(const PlanArguments& arguments, const FormSample& sample, const StoragePlan& plan) {
  const auto& nearest = plan.forms[static_cast<size_t>(plan.nearest)];
  throw config_error(
      concat("plan: --target is ", rate(arguments.target), " images/s, which nothing reaches on ",
             count_text(static_cast<uint64_t>(arguments.nodes), "node"), "; the nearest is ",
             sample.forms[static_cast<size_t>(plan.nearest)].flags, " with ", rate(nearest.most), " images/s, where ",
             nearest.is_link_bound
                 ? "the link is the limit"
                 : concat(count_text(static_cast<uint64_t>(nearest.workers), "worker"), " per node are the limit"),
             "; expected that or less", plan.nodes_needed > 0 ? concat(", or --nodes ", plan.nodes_needed) : ""));
}

int run_plan(const PlanArguments& arguments) {
  check(arguments);
  const Planned planned_source = planned(arguments);
  const uint64_t size = planned_source.source->size();
  if (size == 0) throw io_error(concat("source ", planned_source.name, ": no samples; expected one or more"));
  const FormSample sample =
      measure_forms(planned_source.source, planned_source.name, arguments.loader, arguments.augment,
                    arguments.sample_count, choice("--sixteen-bit", arguments.sixteen_bit, sixteen_bit_names()));
  const StoragePlan plan = plan_storage(
      sample.forms,
      {.images_per_second = arguments.target, .nodes = arguments.nodes, .link_bytes_per_second = arguments.link * 1e6});
  print_table(arguments, sample, plan, size);
  if (plan.best < 0) refuse(arguments, sample, plan);
  const auto& form = sample.forms[static_cast<size_t>(plan.best)];
  const auto& best = plan.forms[static_cast<size_t>(plan.best)];
  std::printf("\nplan: %s reaches %s images/s with --workers %d on %s: up to %s%s\n", form.flags.c_str(),
              rate(arguments.target).c_str(), best.workers,
              count_text(static_cast<uint64_t>(arguments.nodes), "node").c_str(), rate(best.most).c_str(),
              best.is_link_bound ? ", where the link is the limit" : "");
  if (planned_source.command.empty())
    std::printf("run: nothing; %s is stored so\n", arguments.data.c_str());
  else
    std::printf("run: %s --out OUT %s%s\n", planned_source.command.c_str(), form.flags.c_str(),
                arguments.sixteen_bit == "refuse" ? "" : concat(" --sixteen-bit ", arguments.sixteen_bit).c_str());
  return 0;
}

}  // namespace

Command plan_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "plan", "measure on this machine, with some of the pictures, which form of storing reaches a rate");
  const auto arguments = std::make_shared<PlanArguments>();  // lives as long as the parser's pointers to it
  command->add_option("--target", arguments->target, "images per second that the training needs, of all nodes together")
      ->required();
  command->add_option("--source", arguments->source, "format of the input, as in shardprep pack");
  command->add_option("--input", arguments->input, "folder of the input");
  command->add_option("--data", arguments->data, "a packed data set, in place of --source and --input");
  command->add_option("--split", arguments->split, "split to plan for: train, test or all")->capture_default_str();
  add_plugin_option(*command, arguments->plugins);
  command
      ->add_option("--link", arguments->link,
                   "MB/s that each node gets from the storage, where the data are not in its memory; 0: no limit")
      ->capture_default_str();
  command->add_option("--nodes", arguments->nodes, "machines like this one, which share the target")
      ->capture_default_str();
  command->add_option("--augment", arguments->augment,
                      "transforms of the training (default: normalize for pictures of one size, otherwise "
                      "random-resized-crop(size=224),flip,normalize)");
  command
      ->add_option("--sixteen-bit", arguments->sixteen_bit,
                   "as in shardprep pack, for pictures of 16 bits per channel: refuse, drop or keep")
      ->capture_default_str();
  command->add_option("--batch-size", arguments->loader.batch_size, "samples per batch")->capture_default_str();
  command
      ->add_option("--samples", arguments->sample_count,
                   "pictures to measure with (default: those with 48 MB of files or 150 MB of pixels, 256 to 60,000)")
      ->type_name("UINT");
  return {command, [arguments] { return run_plan(*arguments); }};
}

}  // namespace penstock
