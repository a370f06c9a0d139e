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
#include "loader/pack/storage_plan.h"
#include "loader/shards/dataset.h"
#include "loader/sources/source.h"
#include "tools/cli.h"
#include "tools/plugins.h"
#include "tools/shardprep/commands.h"
#include "tools/shardprep/excerpt.h"
#include "tools/shardprep/far_plan.h"
#include "tools/shardprep/form_rates.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostTarget = 1'000'000'000;  // images/s: more than all GPUs of a cluster take

struct PlanArguments {
  std::string source, input, split = "train", data, augment, sixteen_bit = "refuse";
  std::vector<std::string> plugins;
  double target = 0;  // images/s
  int nodes = 1;
  FarFlags far;
  uint64_t sample_count = 0;
  LoaderOptions loader;
};

void check(const PlanArguments& arguments) {
  if (!(arguments.target > 0 && arguments.target <= kMostTarget))
    throw config_error(concat("--target: is ", arguments.target, "; expected images per second, more than 0 and up to ",
                              grouped(kMostTarget)));
  if (arguments.nodes < 1) throw config_error(concat("--nodes: is ", arguments.nodes, "; expected 1 or more"));
  if (arguments.source.empty() == arguments.data.empty()) {
    throw config_error(
        concat("plan: ", arguments.source.empty() ? "neither --source nor --data" : "both --source and --data",
               "; expected one of the two"));
  }
}

/// The source that is planned for, its name, how a command of pack begins ("" where nothing is to be done), and in how
/// many shards it is or would be packed.
struct Planned {
  std::shared_ptr<const Source> source;
  std::string name, command;
  int shard_count = PackOptions().shard_count;
};

Planned planned(const PlanArguments& arguments) {
  const std::string split = split_of_name(arguments.split);
  if (!arguments.data.empty()) {
    const auto folders = split_folders(arguments.data, split);
    const Manifest manifest = read_manifest(folders.front());
    auto source = packed_source(folders.front());
    const auto shard_count = static_cast<int>(manifest.shards.size());
    if (source->raw_extent()) return {std::move(source), manifest.source, "", shard_count};
    // Tars keep labels and fields, which a folder of files does not.
    return {std::move(source), manifest.source,
            concat("shardprep export ", arguments.data, " --split ", split,
                   " --to webdataset --out FILES && shardprep pack --source webdataset --input FILES --split ", split),
            shard_count};
  }
  const Spec spec = parse_spec(SourceKind::kName, arguments.source);
  std::string command = concat("shardprep pack --source '", spec.text(), "'");
  if (!arguments.input.empty()) command += concat(" --input ", arguments.input);
  return {SourceRegistry::make(spec, arguments.input, split), spec.text(), concat(command, " --split ", split)};
}

std::string rate(double images_per_second) { return grouped(static_cast<uint64_t>(std::lround(images_per_second))); }

void print_table(const FormSample& sample, uint64_t size) {
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
}

/// `is_link_bound`: the link is what limits the form that comes nearest.
[[noreturn]] void refuse(const PlanArguments& arguments, const FormSample& sample, const StoragePlan& plan,
                         bool is_link_bound) {
  const auto& nearest = plan.forms[static_cast<size_t>(plan.nearest)];
  throw config_error(concat(
      "plan: --target is ", rate(arguments.target), " images/s, which nothing reaches on ",
      count_text(static_cast<uint64_t>(arguments.nodes), "node"), "; the nearest is ",
      sample.forms[static_cast<size_t>(plan.nearest)].flags, " with ", rate(nearest.most), " images/s, where ",
      is_link_bound ? "the link is the limit"
                    : concat(count_text(static_cast<uint64_t>(nearest.workers), "worker"), " per node are the limit"),
      "; expected that or less", plan.nodes_needed > 0 ? concat(", or --nodes ", plan.nodes_needed) : ""));
}

/// What reaches the target, and the command that packs so.
void print_plan(const PlanArguments& arguments, const Planned& source, const std::string& flags,
                const PlannedForm& best, const FarForm* far) {
  const bool is_link_bound = far != nullptr && far->rate.bound == Resource::kLink;
  const bool has_cache = !arguments.far.cache_limit.empty();
  std::printf("\nplan: %s reaches %s images/s with --workers %d on %s: up to %s%s%s\n", flags.c_str(),
              rate(arguments.target).c_str(), best.workers,
              count_text(static_cast<uint64_t>(arguments.nodes), "node").c_str(), rate(best.most).c_str(),
              is_link_bound ? ", where the link is the limit" : "", has_cache ? ", in epochs after the first" : "");
  if (source.command.empty()) {
    std::printf("run: nothing; %s is stored so\n", arguments.data.c_str());
    return;
  }
  std::printf("run: %s --out OUT %s%s%s\n", source.command.c_str(), flags.c_str(),
              arguments.sixteen_bit == "refuse" ? "" : concat(" --sixteen-bit ", arguments.sixteen_bit).c_str(),
              arguments.far.shards ? concat(" --shards ", *arguments.far.shards).c_str() : "");
}

int run_plan(const PlanArguments& arguments) {
  check(arguments);
  const Planned source = planned(arguments);
  const uint64_t size = source.source->size();
  if (size == 0) throw io_error(concat("source ", source.name, ": no samples; expected one or more"));
  const FarPlan far_plan(arguments.far, {.image_count = size,
                                         .shard_count = source.shard_count,
                                         .batch_size = arguments.loader.batch_size,
                                         .nodes = arguments.nodes});
  FormSample sample =
      measure_forms(source.source, source.name, arguments.loader, arguments.augment, arguments.sample_count,
                    choice("--sixteen-bit", arguments.sixteen_bit, sixteen_bit_names()));
  print_table(sample, size);
  std::vector<FarForm> far;
  if (far_plan.has_link()) {
    far = far_plan.over_link(sample.forms);
    std::fputs(far_plan.text(sample.forms, far).c_str(), stdout);
  }
  std::fflush(stdout);
  const StoragePlan plan =
      plan_storage(sample.forms, {.images_per_second = arguments.target, .nodes = arguments.nodes});
  const auto far_of = [&](int form) { return far.empty() ? nullptr : &far[static_cast<size_t>(form)]; };
  const FarForm* const nearest = far_of(plan.nearest);
  if (plan.best < 0) refuse(arguments, sample, plan, nearest != nullptr && nearest->rate.bound == Resource::kLink);
  const auto best = static_cast<size_t>(plan.best);
  print_plan(arguments, source, sample.forms[best].flags, plan.forms[best], far_of(plan.best));
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
  add_far_flags(*command, arguments->far);
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
