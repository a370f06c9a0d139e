// Command line of loadbench.
#include "tools/loadbench/options.h"

#include <charconv>
#include <fstream>

#include "augment/render.h"
#include "augment/transform.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/text.h"
#include "tools/cli.h"
#include "tools/plugins.h"

namespace penstock {
namespace {

std::vector<int> parse_workers(const std::string& text) {
  std::vector<int> workers;
  for (const auto& part : split(text, ',')) {
    int count = 0;
    const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), count);
    if (code != std::errc() || end != part.data() + part.size() || count < 0)
      throw config_error(
          concat("--workers: ", in_quotes(part), " in ", in_quotes(text), "; expected counts such as 0,1,2,4"));
    workers.push_back(count);
  }
  return workers;
}

void check(const BenchOptions& options) {
  if (options.data.empty()) throw config_error("--data: is \"\"; expected a data set or a split's folder");
  if (options.epochs < 1) throw config_error(concat("--epochs: is ", options.epochs, "; expected 1 or more"));
  if (options.max_batches < 0)
    throw config_error(concat("--batches: is ", options.max_batches, "; expected 0 (all) or more"));
  if (options.has_all_ranks && (options.all_ranks < 1 || !options.digest))
    throw config_error(concat("--all-ranks: is ", options.all_ranks, "; expected 1 or more, and --digest with it"));
  if (options.all_ranks > 0 && (options.loader.world_size > 1 || options.loader.rank != 0)) {
    const bool is_world = options.loader.world_size > 1;
    throw config_error(concat(is_world ? "--world-size" : "--rank", ": is ",
                              is_world ? options.loader.world_size : options.loader.rank, " beside --all-ranks ",
                              options.all_ranks, "; expected one of them"));
  }
}

}  // namespace

BenchOptions parse_bench_options(int argc, char** argv) {
  load_plugins({argv, argv + argc});
  BenchOptions options;
  std::vector<std::string> plugins;
  std::string workers = "0,1,2,4", shuffle = "global", tail = "pad", layout = "f32", on_corrupt = "fail",
              decode = "auto", dct_scale = "auto";
  auto& loader = options.loader;
  CLI::App app{
      "Measures the loader alone: images/s and stages for each worker count, or digests of what it delivers. "
      "Exit codes: 0, 2 options, 3 files, 4 corrupt data, 5 threads or memory."};
  app.footer(
      "Columns: read, plan, decode, render: mean/p99 of a sample in us. wait: of a batch, until it is there. ready: "
      "share of the batches that were there when they were asked for. slots: memory of the batches made ahead. RSS: of "
      "the process. first: from start to the first batch.");
  app.add_option("--data", options.data, "data set, or one split's folder, as shardprep packs them")->required();
  const auto* split = app.add_option("--split", options.split, "split of the data set")->capture_default_str();
  app.add_option("--workers,-j", workers, "worker counts, measured in turn; 0: the caller's thread")
      ->capture_default_str();
  app.add_option("--prefetch", loader.prefetch, "batches made ahead")->capture_default_str();
  app.add_option("--batch-size,-b", loader.batch_size, "global batch")->capture_default_str();
  app.add_option("--augment", options.augment,
                 "transforms, e.g. affine(degrees=10),flip,normalize; of" + help_lines<TransformRegistry>())
      ->capture_default_str();
  add_plugin_option(app, plugins);
  app.add_option("--epochs", options.epochs, "epochs of each worker count; the median counts")->capture_default_str();
  app.add_option("--batches", options.max_batches, "end an epoch behind this many batches; 0: all")
      ->capture_default_str();
  app.add_option("--json", options.json, "write the results to this file");
  app.add_flag("--digest", options.digest, "print `epoch E digest HEX` of all ids, labels, weights and pixels instead");
  app.add_option("--rank", loader.rank, "this rank's part alone")->capture_default_str();
  app.add_option("--world-size", loader.world_size, "ranks")->capture_default_str();
  const auto* all_ranks =
      app.add_option("--all-ranks", options.all_ranks, "with --digest: merge the parts of this many ranks");
  app.add_option("--shuffle", shuffle, "global, rank-local or none")->capture_default_str();
  app.add_option("--tail", tail, "pad or drop")->capture_default_str();
  app.add_option("--layout", layout,
                 "f32, f16 or bf16 (N x C x H x W, normalised), the same with -nhwc, or u8 (N x H x W x C)")
      ->capture_default_str();
  app.add_option("--seed", loader.seed, "seed of order and augmentation")->capture_default_str();
  app.add_option("--decode", decode, "JPEGs: auto, index (coefficients or seek index), region or full (libjpeg-turbo)")
      ->capture_default_str();
  app.add_option("--dct-scale", dct_scale, "auto: decode JPEGs smaller where the crop is reduced anyway; off")
      ->capture_default_str();
  app.add_option("--on-corrupt", on_corrupt, "fail or substitute")->capture_default_str();
  parse_command_line(app, argc, argv);
  options.is_split_given = split->count() > 0;
  options.has_all_ranks = all_ranks->count() > 0;

  options.workers = parse_workers(workers);
  loader.shuffle =
      choice<Shuffle>("--shuffle", shuffle,
                      {{"global", Shuffle::kGlobal}, {"rank-local", Shuffle::kRankLocal}, {"none", Shuffle::kNone}});
  loader.tail = choice<Tail>("--tail", tail, {{"pad", Tail::kPad}, {"drop", Tail::kDrop}});
  loader.layout = choice<Layout>("--layout", layout,
                                 {{"f32", Layout::kF32Nchw},
                                  {"u8", Layout::kU8Nhwc},
                                  {"f16", Layout::kF16Nchw},
                                  {"bf16", Layout::kBf16Nchw},
                                  {"f32-nhwc", Layout::kF32Nhwc},
                                  {"f16-nhwc", Layout::kF16Nhwc},
                                  {"bf16-nhwc", Layout::kBf16Nhwc}});
  loader.on_corrupt = choice<OnCorrupt>("--on-corrupt", on_corrupt,
                                        {{"fail", OnCorrupt::kFail}, {"substitute", OnCorrupt::kSubstitute}});
  loader.decode = choice<DecodePath>("--decode", decode,
                                     {{"auto", DecodePath::kAuto},
                                      {"index", DecodePath::kIndex},
                                      {"region", DecodePath::kRegion},
                                      {"full", DecodePath::kFull}});
  loader.scales_dct = choice<bool>("--dct-scale", dct_scale, {{"auto", true}, {"off", false}});
  check(options);
  return options;
}

Machine this_machine() {
  Machine machine{.cores = usable_cores(), .cpu = processor_name(), .simd = {}};
  machine.simd = render_targets().front();
  return machine;
}

int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "VmRSS:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace penstock
