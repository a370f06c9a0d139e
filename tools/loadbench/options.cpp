// Command line of loadbench.
#include "tools/loadbench/options.h"

#include "augment/render.h"
#include "augment/size_schedule.h"
#include "augment/transform.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/number.h"
#include "core/text.h"
#include "loader/batch/option_names.h"
#include "tools/cache_flags.h"
#include "tools/cli.h"
#include "tools/loader_help.h"
#include "tools/plugins.h"

namespace penstock {
namespace {

constexpr const char* kDescription =
    "Measures the loader without training: images/s and the time of each stage for several numbers of workers, or, "
    "with --digest, digests of what the loader delivers. Exit codes: 0 success, 2 wrong options, 3 files, 4 corrupt "
    "data, 5 threads or memory.";
constexpr const char* kColumns =
    "Columns. read, plan, decode, render: time per sample, mean/p99 in us. storage: mean time per sample that workers "
    "waited for the storage, in us. wait: time per batch that the consumer waited, mean/p99 in us. ready: share of the "
    "batches that were ready when they were asked for. slots: memory for batches. RSS: memory of the whole process. "
    "first: time from the start to the first batch.";

std::vector<int> parse_workers(const std::string& text) {
  std::vector<int> workers;
  for (const auto& part : split(text, ',')) {
    const auto count = parse_number<int>(part);
    if (!count || *count < 0)
      throw config_error(
          concat("--workers: ", in_quotes(part), " in ", in_quotes(text), "; expected counts such as 0,1,2,4"));
    workers.push_back(*count);
  }
  return workers;
}

void check(const BenchOptions& options) {
  if (options.data.empty()) throw config_error("--data: is \"\"; expected the folder of a data set or of a split");
  if (options.epochs < 1) throw config_error(concat("--epochs: is ", options.epochs, "; expected 1 or more"));
  SizeSchedule("--size-schedule", options.loader.size_schedule);  // throws
  if (options.max_batches < 0)
    throw config_error(concat("--batches: is ", options.max_batches, "; expected 0 (all) or more"));
  if (options.has_all_ranks && (options.all_ranks < 1 || !options.digest))
    throw config_error(concat("--all-ranks: is ", options.all_ranks, "; expected 1 or more, and --digest with it"));
  if (options.audit && options.digest) throw config_error("--audit: is given with --digest; expected one of the two");
  if (options.all_ranks > 0 && (options.loader.world_size > 1 || options.loader.rank != 0)) {
    const bool is_world = options.loader.world_size > 1;
    throw config_error(concat(is_world ? "--world-size" : "--rank", ": is ",
                              is_world ? options.loader.world_size : options.loader.rank, " with --all-ranks ",
                              options.all_ranks, "; expected one of the two"));
  }
}

}  // namespace

BenchOptions parse_bench_options(int argc, char** argv) {
  load_plugins({argv, argv + argc});
  BenchOptions options;
  std::vector<std::string> plugins;
  std::string workers = "0,1,2,4", shuffle = "global", tail = "pad", layout = "f32", on_corrupt = "fail",
              decode = "auto", dct_scale = "auto", read_ahead = "auto";
  auto& loader = options.loader;
  CLI::App app{kDescription};
  app.footer(kColumns);
  app.add_option("--data", options.data, "folder of a packed data set, or of one split of it")->required();
  add_also_option(app, options.also);
  const auto* split =
      app.add_option("--split", options.split, "split to load: train, test or all")->capture_default_str();
  app.add_option("--workers,-j", workers,
                 "numbers of worker threads to measure; 0: the consumer's thread makes the batches itself")
      ->capture_default_str();
  app.add_option("--prefetch", loader.prefetch, "batches that the workers make ahead")->capture_default_str();
  app.add_option("--batch-size,-b", loader.batch_size, "samples per batch, over all ranks")->capture_default_str();
  app.add_option("--augment", options.augment,
                 "transforms in their order, for example 'affine(degrees=10),flip,normalize'. Known transforms:" +
                     help_lines<TransformRegistry>())
      ->capture_default_str();
  add_plugin_option(app, plugins);
  add_cache_flags(app);
  std::string sim_link;
  add_sim_link_flag(app, sim_link);
  app.add_option("--views", loader.views,
                 "one more list of transforms: a further picture of every sample, with random numbers of its own; may "
                 "be given several times")
      ->allow_extra_args(false);
  app.add_option("--size-schedule", loader.size_schedule,
                 size_schedule_help("--augment") +
                     ". Views whose list states the same size follow it. With --digest, each epoch has its size; a "
                     "measurement counts epochs from 1, because epoch 0 warms up");
  app.add_option("--columns", loader.columns,
                 "further columns of a batch, made by plug-ins, for example 'mean'; they are in the digest" +
                     help_lines<ColumnRegistry>());
  app.add_option("--epochs", options.epochs, "epochs to measure for each number of workers; the table shows the median")
      ->capture_default_str();
  app.add_option("--batches", options.max_batches, "end each epoch after this many batches; 0: after all of them")
      ->capture_default_str();
  const auto* json = app.add_option("--json", options.json, "file for the results as JSON");
  app.add_flag(
      "--digest", options.digest,
      "measure nothing; print `epoch E digest HEX` for each epoch, a digest of all ids, labels, weights and pixels");
  app.add_flag("--audit", options.audit,
               "measure nothing; print how well the order mixes, in the first, the middle and the last twentieth of an "
               "epoch, and what --world-size nodes have to read, beside the full shuffle");
  app.add_option("--rank", loader.rank, "rank whose part of each batch is loaded")->capture_default_str();
  app.add_option("--world-size", loader.world_size, "number of ranks that share a batch")->capture_default_str();
  const auto* all_ranks = app.add_option(
      "--all-ranks", options.all_ranks,
      "with --digest: load the parts of this many ranks one after the other, and print the digest of them all");
  app.add_option("--shuffle", shuffle, kShuffleHelp)->capture_default_str();
  app.add_option("--subset", loader.subset, subset_help());
  app.add_option("--exclude-ids", loader.exclude_ids, kExcludeHelp);
  app.add_option("--sampler", loader.sampler, sampler_help());
  app.add_option("--tail", tail, kTailHelp)->capture_default_str();
  app.add_option("--layout", layout,
                 "pixels of a batch: f32, f16 or bf16 (normalised, N x C x H x W), f32-nhwc, f16-nhwc or bf16-nhwc "
                 "(normalised, N x H x W x C), or u8 (levels 0 to 255, N x H x W x C)")
      ->capture_default_str();
  app.add_option("--seed", loader.seed, "seed of the order and the augmentation")->capture_default_str();
  app.add_option("--decode", decode, kDecodeHelp)->capture_default_str();
  app.add_option("--dct-scale", dct_scale,
                 dct_scale_help("auto: if the transforms draw at random, as in training; always: for any transforms; "
                                "off: never"))
      ->capture_default_str();
  app.add_option(
         "--read-ahead", read_ahead,
         "with --shuffle shards(...): whether the shards that come next are read ahead and used ones are dropped "
         "from memory. auto: if the data set has more bytes than there is memory; on; off")
      ->capture_default_str();
  app.add_option("--on-corrupt", on_corrupt, kOnCorruptHelp)->capture_default_str();
  app.add_option(
      "--quarantine", loader.quarantine,
      "file that gets a line of JSON for each corrupt sample that --on-corrupt lets pass; lines are appended");
  parse_command_line(app, argc, argv);
  options.is_split_given = split->count() > 0;
  options.has_all_ranks = all_ranks->count() > 0;

  if (!sim_link.empty()) {
    options.data = behind_sim_link("--sim-link:", sim_link, options.data);
    for (auto& other : options.also) other = behind_sim_link("--sim-link:", sim_link, other);
  }
  options.workers = parse_workers(workers);
  loader.shuffle = parse_shuffle("--shuffle", shuffle);
  loader.tail = choice("--tail", tail, tail_names());
  loader.layout = choice("--layout", layout, layout_names());
  loader.on_corrupt = choice("--on-corrupt", on_corrupt, on_corrupt_names());
  loader.decode = choice("--decode", decode, decode_names());
  loader.dct_scale = choice("--dct-scale", dct_scale, dct_scale_names());
  loader.read_ahead = choice("--read-ahead", read_ahead, read_ahead_names());
  check(options);
  if (json->count() > 0 && options.json.empty()) throw config_error("--json: is \"\"; expected a file to write to");
  return options;
}

Machine this_machine() {
  Machine machine{.cores = usable_cores(), .cpu = processor_name(), .simd = {}};
  machine.simd = render_targets().front();
  if (machine.simd.starts_with("AVX3")) machine.simd = "AVX-512";
  return machine;
}

}  // namespace penstock
