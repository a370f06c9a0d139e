// TrainOptions: checks, and default numbers of threads.
#include "train/options/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "loader/batch/option_names.h"
#include "train/options/average.h"
#include "train/options/lr_schedule.h"
#include "train/options/test_views.h"

namespace penstock {
namespace {

constexpr int kMaxThreads = 1024;  // the same limit as for the loader's workers; OpenMP hangs with a million threads
constexpr int kMaxTimeout = 7 * 24 * 3600;

void check_name(const std::string& flag, const std::string& name, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw config_error(concat("--", flag, ": ", unknown_name(flag, name, known)));
}

template <class Value>
void check_name(const std::string& flag, const std::string& name, const std::map<std::string, Value>& known) {
  std::vector<std::string> names;
  for (const auto& [one, value] : known) names.push_back(one);
  check_name(flag, name, names);
}

template <class Number>
void check_at_least(const std::string& flag, Number value, Number least) {
  if (value < least) throw config_error(concat("--", flag, " is ", value, "; expected ", least, " or more"));
}

void check_number(const std::string& flag, double value, double least, double below) {
  if (!(value >= least && value < below))
    throw config_error(concat("--", flag, " is ", value, "; expected ", least, " or more and less than ", below));
}

void check_exact(const TrainOptions& options) {
  constexpr int kMostShards = 4096;
  const int shards = options.exact_shards;
  check_name("exact-kernels", options.exact_kernels, std::vector<std::string>{"avx2", "native"});
  if (shards == 0 && options.exact_kernels != "avx2")
    throw config_error(concat("--exact-kernels ", options.exact_kernels,
                              " without --exact, which alone chooses kernels; expected both"));
  if (shards == 0) return;
  if (shards < 0 || shards > kMostShards || (shards & (shards - 1)) != 0)
    throw config_error(
        concat("--exact is ", shards, "; expected a power of two from 1 to ", kMostShards, ", or 0 for a run without"));
  if (options.batch_size % shards != 0)
    throw config_error(
        concat("--exact is ", shards, " with --batch-size ", options.batch_size, "; expected a batch that it divides"));
  if (options.shuffle == "rank-local")
    throw config_error(concat("--exact is ", shards, " with --shuffle rank-local, which gives other batches to other ",
                              "numbers of ranks; expected --shuffle global or none"));
  if (options.is_resident)
    throw config_error(concat("--exact is ", shards, " with --resident, which renders the rows of a rank at once; ",
                              "expected one of the two"));
}

void check_new_head(const TrainOptions& options) {
  if (!options.has_new_head) return;
  if (options.pretrained.empty())
    throw config_error(
        "--new-head without --pretrained: all weights start from random ones anyway; expected --pretrained FILE");
  if (options.only_evaluates)
    throw config_error("--new-head with --evaluate: the new head would never be trained; expected one of the two");
}

void check_resume(const TrainOptions& options) {
  if (options.resumes_if_possible() && options.only_evaluates)
    throw config_error(
        "--resume auto with --evaluate: there may be nothing to evaluate; expected --resume FILE or DIR");
  if (options.resumes_if_possible() && options.out.empty())
    throw config_error(
        "--resume auto without --out, whose default is a new folder; expected --out with the run's folder");
  // A restart has --resume auto, which takes over no flags.
  if (options.max_restarts > 0 && !options.resume.empty() && !options.resumes_if_possible())
    throw config_error(
        concat("--max-restarts is ", options.max_restarts, " with --resume ", options.resume.string(),
               ", whose flags a restart would not take over; expected --resume auto, with the flags of that run"));
  // With auto, the weights of --pretrained are those that the first start begins with.
  if (!options.resume.empty() && !options.pretrained.empty() && !options.resumes_if_possible()) {
    throw config_error(concat("--resume ", options.resume.string(), " with --pretrained ", options.pretrained.string(),
                              ": a checkpoint has all weights; expected one of the two"));
  }
}

/// The number before the unit times the unit; none if `text` is anything else, or below 0.
std::optional<double> quantity_in(const std::string& text, const std::map<std::string, double>& units) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const auto unit = units.find(std::string(rest, end));
  if (error != std::errc() || unit == units.end() || !(value >= 0)) return std::nullopt;
  return value * unit->second;
}

constexpr double kMost_ns = 3600e9;

std::optional<double> nanoseconds_in(const std::string& text) {
  const auto ns = quantity_in(text, {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}});
  return ns && *ns <= kMost_ns ? ns : std::nullopt;
}

}  // namespace

SaveEvery parse_save_every(const std::string& text) {
  int64_t count = -1;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  std::string unit(rest, end);
  unit.erase(0, unit.find_first_not_of(' '));
  const bool is_step = unit.empty() || unit == "step" || unit == "steps";
  const bool is_epoch = unit == "epoch" || unit == "epochs";
  if (error != std::errc() || count < 0 || !(is_step || is_epoch)) {
    throw config_error(
        concat("--save-every is ", in_quotes(text), "; expected \"100 steps\", \"1 epoch\", or 0 for the end only"));
  }
  return is_step ? SaveEvery{count, 0} : SaveEvery{0, count};
}

int64_t parse_duration_ns(const std::string& flag, const std::string& text) {
  if (text.empty()) return 0;
  const auto ns = nanoseconds_in(text);
  if (!ns)
    throw config_error(
        concat(flag, " is ", in_quotes(text), "; expected a time with its unit, such as 1.2ms or 100us, up to 3600s"));
  return std::llround(*ns);
}

std::optional<NetworkModel> parse_network(const std::string& flag, const std::string& text) {
  if (text.empty()) return std::nullopt;
  constexpr double kLeast = 1, kMost = 1e15;  // bytes per second
  const auto parts = split(text, ',');
  const auto delay_ns = parts.size() == 2 ? nanoseconds_in(parts[0]) : std::nullopt;
  const auto rate = parts.size() == 2 ? quantity_in(parts[1], {{"B/s", 1}, {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}})
                                      : std::nullopt;
  if (!delay_ns || !rate || *rate < kLeast || *rate > kMost)
    throw config_error(concat(flag, " is ", in_quotes(text),
                              "; expected a delay up to 3600s and a rate of 1B/s or more, ",
                              "with their units, such as 25us,10GB/s"));
  return NetworkModel{std::llround(*delay_ns), *rate, text};
}

std::string to_string(const SaveEvery& save_every) {
  if (save_every.steps > 0) return concat(save_every.steps, " steps");
  return save_every.epochs > 0 ? concat(save_every.epochs, " epochs") : "0";
}

void check(const TrainOptions& options, const std::vector<std::string>& archs, const std::vector<std::string>& modes,
           const std::vector<std::string>& optimizers) {
  check_name("arch", parse_spec("arch", options.arch).name(), archs);
  check_name("mode", parse_spec("mode", options.mode).name(), modes);
  check_name("optimizer", parse_spec("optimizer", options.optimizer).name(), optimizers);
  check_name("device", options.device, {"auto", "cpu", "cuda"});
  for (const auto& split : {options.split, options.evaluated_split})
    check_name("split", split, {"all", "test", "train"});
  check_name("shuffle", options.shuffle, shuffle_names());
  check_name("tail", options.tail, tail_names());
  check_name("layout", options.layout, {"f32", "u8"});
  check_name("decode", options.decode, decode_names());
  check_name("dct-scale", options.dct_scale, dct_scale_names());
  check_name("schedule", parse_spec("schedule", options.schedule).name(), RateSchedule::names());
  RateSchedule{options.schedule};  // throws
  check_name("tta", options.test_views, test_view_names());
  parse_average(options.average);  // throws
  check_name("dist-backend", options.dist_backend, {"auto", "gloo", "nccl"});
  check_name("hosting", options.hosting, {"processes", "threads"});
  if (options.workers != -1) check_at_least("workers", options.workers, 0);
  check_at_least("prefetch", options.prefetch, 1);
  check_at_least("batch-size", options.batch_size, int64_t{1});
  check_at_least("epochs", options.epochs, int64_t{0});
  check_at_least("print-freq", options.print_freq, int64_t{1});
  check_at_least("threads", options.threads, 0);
  if (options.threads > kMaxThreads)
    throw config_error(concat("--threads is ", options.threads, "; expected ", kMaxThreads, " or fewer"));
  check_at_least("nproc", options.nproc, 0);
  check_at_least("world-size", options.world_size, 0);
  check_at_least("rank", options.rank, -1);
  check_at_least("timeout", options.timeout_seconds, 1);
  if (options.timeout_seconds > kMaxTimeout)
    throw config_error(concat("--timeout is ", options.timeout_seconds, "; expected ", kMaxTimeout, " s or less"));
  if (options.gpu != -1) check_at_least("gpu", options.gpu, 0);
  if (options.learning_rate != -1) check_number("lr", options.learning_rate, 0, INFINITY);
  check_number("momentum", options.momentum, 0, 1);
  check_number("weight-decay", options.weight_decay, 0, INFINITY);
  if (options.bias_decay != -1) check_number("bias-decay", options.bias_decay, 0, INFINITY);
  if (!(options.bias_rate > 0 && options.bias_rate < INFINITY))
    throw config_error(concat("--bias-lr is ", options.bias_rate, "; expected a factor of more than 0"));
  check_number("label-smoothing", options.label_smoothing, 0, 1);
  check_new_head(options);
  check_exact(options);
  if (options.profile_steps > 0 && options.only_evaluates)
    throw config_error(
        concat("--profile ", options.profile_steps, " with --evaluate: no step is trained; expected one of the two"));
  if (options.gpu >= 0 && options.device == "cpu")
    throw config_error(concat("--gpu is ", options.gpu, " with --device cpu; expected one of the two"));
  if (options.is_resident && options.layout != "f32")
    throw config_error("--resident with --layout u8: batches are rendered on the device; expected --layout f32");
  if (options.is_resident && options.emulation.load_ns > 0)
    throw config_error("--emulate-load with --resident: no loader makes the batches; expected one of the two");
  check_at_least("keep", options.keep, int64_t{1});
  check_resume(options);
  check_at_least("max-restarts", options.max_restarts, 0);
  if (options.max_restarts > 0 && options.only_evaluates)
    throw config_error(concat("--max-restarts is ", options.max_restarts, " with --evaluate; expected one of the two"));
}

ThreadCounts default_threads(int core_count, bool is_cuda) {
  if (is_cuda) return {std::clamp(core_count - 1, 1, 8), 1};
  constexpr int kWorkers = 1;
  return {kWorkers, std::max(1, core_count - kWorkers)};
}

Shuffle shuffle_of(const TrainOptions& options) { return shuffle_names().at(options.shuffle); }

Tail tail_of(const TrainOptions& options) { return tail_names().at(options.tail); }

Layout layout_of(const TrainOptions& options) { return options.layout == "f32" ? Layout::kF32Nchw : Layout::kU8Nhwc; }

DecodePath decode_of(const TrainOptions& options) { return decode_names().at(options.decode); }

DctScale training_dct_scale(const TrainOptions& options) {
  const DctScale scale = dct_scale_names().at(options.dct_scale);
  return scale == DctScale::kAuto ? DctScale::kAlways : scale;
}

DctScale evaluation_dct_scale(const TrainOptions& options) {
  const DctScale scale = dct_scale_names().at(options.dct_scale);
  return scale == DctScale::kAuto ? DctScale::kOff : scale;
}

}  // namespace penstock
