// check(): the names of plug-ins, the ranges of the flag table, and pairs of flags.
#include "train/options/check.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "train/options/flag_table.h"

namespace penstock {
namespace {

constexpr int kMaxThreads = 1024;  // the same limit as for the loader's workers; OpenMP hangs with a million threads
constexpr int kMaxTimeout = 7 * 24 * 3600;

void check_name(const std::string& flag, const std::string& name, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw config_error(concat("--", flag, ": ", unknown_name(flag, name, known)));
}

void check_range(const Flag& flag, const TrainOptions& options) {
  if (!flag.range) return;
  const auto [least, below, automatic] = *flag.range;
  const FlagValue given = flag.value(options);
  const auto* whole = std::get_if<int64_t>(&given);
  const double value = whole == nullptr ? std::get<double>(given) : static_cast<double>(*whole);
  if (value == automatic || (value >= least && value < below)) return;
  if (whole != nullptr) throw config_error(concat("--", flag.name, " is ", *whole, "; expected ", least, " or more"));
  throw config_error(concat("--", flag.name, " is ", value, "; expected ", least, " or more and less than ", below));
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
  if (*options.shuffle == Shuffle::kRankLocal)
    throw config_error(concat("--exact is ", shards, " with --shuffle rank-local, which gives other batches to other ",
                              "numbers of ranks; expected --shuffle global or none"));
  if (options.is_resident)
    throw config_error(concat("--exact is ", shards, " with --resident, which renders the rows of a rank at once; ",
                              "expected one of the two"));
}

/// Whether there are data to evaluate on is known when they are open.
void check_plateau(const TrainOptions& options) {
  if (options.schedule->plateau() == nullptr || options.only_evaluates) return;
  if (!options.evaluates_each_epoch)
    throw config_error(concat("--schedule is ", options.schedule,
                              " with --eval-at-end: it follows the evaluation of each epoch; expected one of the two"));
  if (!options.emulation.learns())
    throw config_error(concat("--schedule is ", options.schedule,
                              " with --emulate-step, which learns nothing and is not evaluated; expected one of the ",
                              "two"));
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

}  // namespace

void check(const TrainOptions& options, const std::vector<std::string>& archs, const std::vector<std::string>& modes,
           const std::vector<std::string>& optimizers) {
  check_name("arch", options.arch->name(), archs);
  check_name("mode", options.mode->name(), modes);
  check_name("optimizer", options.optimizer->name(), optimizers);
  check_name("device", options.device, {"auto", "cpu", "cuda"});
  for (const auto& split : {options.split, options.evaluated_split})
    check_name("split", split, {"all", "test", "train"});
  check_name("dist-backend", options.dist_backend, {"auto", "gloo", "nccl"});
  check_name("hosting", options.hosting, {"processes", "threads"});
  for (const Flag& flag : flag_table()) check_range(flag, options);
  if (options.threads > kMaxThreads)
    throw config_error(concat("--threads is ", options.threads, "; expected ", kMaxThreads, " or fewer"));
  if (options.timeout_seconds > kMaxTimeout)
    throw config_error(concat("--timeout is ", options.timeout_seconds, "; expected ", kMaxTimeout, " s or less"));
  if (options.bias_decay != -1 && !(options.bias_decay >= 0 && options.bias_decay < INFINITY))
    throw config_error(concat("--bias-decay is ", options.bias_decay, "; expected 0 or more and less than inf"));
  if (!(options.bias_rate > 0 && options.bias_rate < INFINITY))
    throw config_error(concat("--bias-lr is ", options.bias_rate, "; expected a factor of more than 0"));
  if (!(options.layer_decay > 0 && options.layer_decay <= 1))
    throw config_error(concat("--layer-decay is ", options.layer_decay, "; expected more than 0, and 1 or less"));
  if (options.epochs > 0 && options.schedule->warmup_epochs() > static_cast<double>(options.epochs))
    throw config_error(concat("--schedule is ", options.schedule, " with --epochs ", options.epochs,
                              ": the run would end in its warm-up; expected one that is not longer than the run"));
  check_plateau(options);
  check_new_head(options);
  check_exact(options);
  if (options.profile_steps > 0 && options.only_evaluates)
    throw config_error(
        concat("--profile ", options.profile_steps, " with --evaluate: no step is trained; expected one of the two"));
  if (options.gpu >= 0 && options.device == "cpu")
    throw config_error(concat("--gpu is ", options.gpu, " with --device cpu; expected one of the two"));
  if (options.is_resident && *options.layout != Layout::kF32Nchw)
    throw config_error("--resident with --layout u8: batches are rendered on the device; expected --layout f32");
  if (options.is_resident && !options.size_schedule->is_empty())
    throw config_error(concat("--size-schedule is ", options.size_schedule,
                              " with --resident, whose kernels are prepared for pictures of one size; expected one of ",
                              "the two"));
  if (options.is_resident && options.emulation.load_ns > 0)
    throw config_error("--emulate-load with --resident: no loader makes the batches; expected one of the two");
  const std::string& chosen = !options.subset.empty() ? options.subset : options.sampler;
  if (*options.shuffle == Shuffle::kRankLocal && (!chosen.empty() || !options.exclude_ids.empty()))
    throw config_error(concat("--shuffle rank-local with ",
                              !options.subset.empty()    ? "--subset "
                              : !options.sampler.empty() ? "--sampler "
                                                         : "--exclude-ids ",
                              chosen.empty() ? options.exclude_ids : chosen,
                              ": a rank knows its own shards alone; expected --shuffle global or none"));
  check_resume(options);
  if (options.max_restarts > 0 && options.only_evaluates)
    throw config_error(concat("--max-restarts is ", options.max_restarts, " with --evaluate; expected one of the two"));
}

}  // namespace penstock
