// Command line of loadbench.
#include "tools/loadbench/options.h"

#include <sched.h>

#include <charconv>
#include <fstream>
#include <map>

#include "augment/detail/render_job.h"
#include "core/error.h"
#include "core/text.h"
#include "tools/cli.h"

namespace penstock {
namespace {

template <class Value>
Value choice(const char* flag, const std::string& text, const std::map<std::string, Value>& known) {
  const auto found = known.find(text);
  if (found != known.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, value] : known) names.push_back(name);
  throw config_error(concat(flag, ": ", unknown_name("value", text, names)));
}

std::vector<int> parse_workers(const std::string& text) {
  std::vector<int> workers;
  for (const auto& part : split(text, ',')) {
    int count = 0;
    const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), count);
    if (code != std::errc() || end != part.data() + part.size() || count < 0)
      throw config_error(concat("--workers: \"", part, "\" in \"", text, "\"; expected counts such as 0,1,2,4"));
    workers.push_back(count);
  }
  return workers;
}

void check(const BenchOptions& options) {
  if (options.data.empty()) throw config_error("--data: is \"\"; expected a data set or a split's folder");
  if (options.epochs < 1) throw config_error(concat("--epochs: is ", options.epochs, "; expected 1 or more"));
  if (options.max_batches < 0)
    throw config_error(concat("--batches: is ", options.max_batches, "; expected 0 (all) or more"));
  if (options.all_ranks < 0 || (options.all_ranks > 0 && !options.digest))
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
  BenchOptions options;
  std::string workers = "0,1,2,4", shuffle = "global", tail = "pad", layout = "f32", on_corrupt = "fail";
  auto& loader = options.loader;
  CLI::App app{
      "Measures the loader alone: images/s and stages for each worker count, or digests of what it delivers. "
      "Exit codes: 0, 2 options, 3 files, 4 corrupt data."};
  app.add_option("--data", options.data, "data set, or one split's folder, as shardprep packs them")->required();
  const auto* split = app.add_option("--split", options.split, "split of the data set")->capture_default_str();
  app.add_option("--workers,-j", workers, "worker counts, measured in turn; 0: the caller's thread")
      ->capture_default_str();
  app.add_option("--prefetch", loader.prefetch, "batches made ahead")->capture_default_str();
  app.add_option("--batch-size,-b", loader.batch_size, "global batch")->capture_default_str();
  app.add_option("--augment", options.augment, "transforms, e.g. affine(degrees=10),flip,normalize")
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "epochs of each worker count; the median counts")->capture_default_str();
  app.add_option("--batches", options.max_batches, "end an epoch behind this many batches; 0: all")
      ->capture_default_str();
  app.add_option("--json", options.json, "write the results to this file");
  app.add_flag("--digest", options.digest, "print `epoch E digest HEX` of all ids, labels, weights and pixels instead");
  app.add_option("--rank", loader.rank, "this rank's part alone")->capture_default_str();
  app.add_option("--world-size", loader.world_size, "ranks")->capture_default_str();
  app.add_option("--all-ranks", options.all_ranks, "with --digest: merge the parts of this many ranks");
  app.add_option("--shuffle", shuffle, "global, rank-local or none")->capture_default_str();
  app.add_option("--tail", tail, "pad or drop")->capture_default_str();
  app.add_option("--layout", layout,
                 "f32, f16 or bf16 (N x C x H x W, normalised), the same with -nhwc, or u8 (N x H x W x C)")
      ->capture_default_str();
  app.add_option("--seed", loader.seed, "seed of order and augmentation")->capture_default_str();
  app.add_option("--on-corrupt", on_corrupt, "fail or substitute")->capture_default_str();
  parse_command_line(app, argc, argv);
  options.is_split_given = split->count() > 0;

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
  check(options);
  return options;
}

Machine this_machine() {
  Machine machine;
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof usable, &usable) == 0) machine.cores = CPU_COUNT(&usable);
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; machine.cpu.empty() && std::getline(file, line);)
    if (line.rfind("model name", 0) == 0) machine.cpu = line.substr(std::min(line.find(':') + 2, line.size()));
  machine.simd = detail::render_targets().front();
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
