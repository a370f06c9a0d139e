// TrainOptions: everything that a run of the trainer depends on, checked before any thread or rank starts.
//
// Lives here: what the user asked for: the flag table, options.json, recipes, the schedule of the learning rate.
// Not here: reading command lines (tools/train), and what modes do with their keys (parallel/modes).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "augment/size_schedule.h"
#include "core/spec.h"
#include "loader/batch/loader.h"
#include "train/comm/emulation.h"
#include "train/nn/module_names.h"
#include "train/nn/parameter_groups.h"
#include "train/nn/precision.h"
#include "train/optimizers/clip.h"
#include "train/options/average.h"
#include "train/options/rate_schedule.h"
#include "train/options/test_views.h"
#include "train/options/typed.h"

namespace penstock {

/// How often checkpoints are written. If both are 0: only at the end.
struct SaveEvery {
  int64_t steps = 0;
  int64_t epochs = 1;
};

/// Parses "100 steps", "100" (steps), "1 epoch" or "0" (only at the end). Throws config_error.
SaveEvery parse_save_every(const std::string& text);
std::string to_string(const SaveEvery& save_every);

/// The nanoseconds in "1.2ms", "100us", "3s" or "500ns"; 0 for "". Throws config_error that names the flag for anything
/// else, also for a number without a unit.
int64_t parse_duration_ns(const std::string& flag, const std::string& text);

/// The network of "25us,10GB/s": a delay and a rate in B/s, KB/s, MB/s or GB/s, powers of 1000; none for "". Throws
/// config_error that names the flag for anything else.
std::optional<NetworkModel> parse_network(const std::string& flag, const std::string& text);

/// What the names stand for. Each throws config_error for an unknown name, which lists the known ones.
Shuffle parse_shuffle(const std::string& name);
Tail parse_tail(const std::string& name);
Layout parse_layout(const std::string& name);
DecodePath parse_decode(const std::string& name);
DctScale parse_dct_scale(const std::string& name);
OnCorrupt parse_on_corrupt(const std::string& name);
SizeSchedule parse_size_schedule(const std::string& text);

/// Which samples are trained on, and how batches are made of them.
struct DataOptions {
  std::string data = "digits";    ///< A folder, an embedded source or `source:folder`.
  std::vector<std::string> also;  ///< Further ones, which are joined with it.
  std::string split = "train";
  std::string evaluated_split = "test";  ///< With --evaluate, the --split that was typed.
  std::filesystem::path cache;           ///< Folder for packed sources; auto: default_cache().
  bool repacks = false;                  ///< --repack: what it has of --data and --also is packed anew.
  std::string cache_dir, cache_limit;    ///< For shards from far away; also in the environment (tools/cache_flags.h).
  std::string augment;
  std::string eval_augment;  ///< Auto: deterministic_part() of `augment`.
  /// The sizes of training alone; evaluations have the size that `augment` states.
  Typed<SizeSchedule> size_schedule{parse_size_schedule, ""};
  std::string subset, exclude_ids, sampler;  ///< Apply to the split that is trained on; see LoaderOptions.
  Typed<Shuffle> shuffle{parse_shuffle, "global"};
  Typed<Tail> tail{parse_tail, "pad"};
  Typed<Layout> layout{parse_layout, "f32"};
  Typed<DecodePath> decode{parse_decode, "auto"};      ///< For JPEGs.
  Typed<DctScale> dct_scale{parse_dct_scale, "auto"};  ///< The same; see training_dct_scale().
  /// An evaluation masks where training substitutes, so that no sample counts for another.
  Typed<OnCorrupt> on_corrupt{parse_on_corrupt, "fail"};
  int64_t batch_size = 64;  ///< Over all ranks.
  int workers = -1;         ///< -1: auto.
  int prefetch = 4;
  bool is_resident = false;
};

/// The network, its first weights, and what it computes in.
struct ModelOptions {
  Typed<Spec> arch{[](const std::string& text) { return parse_spec("arch", text); }, "lenet"};
  std::filesystem::path pretrained;
  bool has_new_head = false;  ///< --new-head: all pretrained weights are taken except those of the last stage.
  std::string freeze;         ///< Layers that are not trained: "stem,layer1".
  Typed<Precision> precision{parse_precision, "f32"};
  bool is_channels_last = false;
};

/// What a step does to the weights, and which weights are evaluated.
struct OptimizationOptions {
  std::string recipe;  ///< --recipe, whose flags are among these options already; empty: none.
  int64_t epochs = 10;
  Typed<Spec> optimizer{[](const std::string& text) { return parse_spec("optimizer", text); }, "sgd"};
  double learning_rate = -1;                             ///< -1: auto, as the optimiser says.
  Typed<LayerRates> layer_rates{parse_layer_rates, ""};  ///< --layer-lr: "layer4=0.1,fc=10".
  double momentum = 0.9;                                 ///< Used by sgd.
  double weight_decay = 5e-4;
  double bias_decay = -1;  ///< Weight decay of biases, see parameter_groups.h; -1: auto, that of the others.
  Typed<DecayKinds> no_decay{parse_no_decay, ""};  ///< --no-decay: kinds of parameters without weight decay.
  double bias_rate = 1;                            ///< --bias-lr: factor of their learning rate.
  double layer_decay = 1;  ///< Factor of the learning rate from each block to the one before it.
  Typed<RateSchedule> schedule{[](const std::string& text) { return RateSchedule(text); }, "cosine"};
  Typed<Spec> loss{[](const std::string& text) { return parse_spec("loss", text); }, "cross-entropy"};
  double label_smoothing = 0;
  Typed<AverageOptions> average{parse_average, ""};
  Typed<ClipOptions> clip{parse_clip, ""};                ///< --clip-grad
  Typed<TestViews> test_views{parse_test_views, "none"};  ///< --tta
  uint64_t seed = 0;
};

/// How a step is spread over devices and ranks.
struct ParallelOptions {
  Typed<Spec> mode{[](const std::string& text) { return parse_spec("mode", text); }, "single"};
  int exact_shards = 0;                ///< --exact: the pieces of a batch that are computed one by one; 0: without it.
  std::string exact_kernels = "avx2";  ///< Those of every processor with AVX2; or "native", those of this processor.
  std::string device = "auto";
  int gpu = -1;
  int threads = 0;               ///< Intra-op; 0: auto.
  bool captures_steps = false;   ///< --graph.
  bool prints_schedule = false;  ///< --print-schedule: nothing is opened and trained.
  bool prints_csv = false;       ///< --print-schedule csv, in place of a drawing.
};

/// How ranks are started and find each other.
struct LaunchOptions {
  int nproc = 0;  ///< 0: auto.
  std::filesystem::path hostfile;
  std::string include, exclude;  ///< Which of its hosts and slots take part.
  int max_restarts = 0;
  bool only_prints_commands = false;  ///< --dry-run.
  int world_size = 0, rank = -1;      ///< For ranks that no launcher started; 0 and -1: not given.
  std::string dist_url, dist_backend = "auto";
  std::string hosting = "processes";  ///< What the ranks of --nproc are: processes, or threads of this process.
  std::string interface;      ///< Network interface, such as eth0, on which ranks communicate; empty: see Rendezvous.
  int timeout_seconds = 120;  ///< The longest wait for other ranks in a step; before the first, five times that.
};

/// What a run writes, where it goes on, and what it leaves out.
struct RunOptions {
  std::vector<std::string> plugins;  ///< One entry per file that was loaded.
  std::filesystem::path out;         ///< Auto: runs/<arch>-<mode>-<time>.
  bool replaces_run = false;         ///< --force: the checkpoints of an earlier run in `out` may be removed.
  SaveEvery save_every;
  int64_t keep = 1;              ///< Checkpoints that are kept, besides the best one.
  std::filesystem::path resume;  ///< A file; or "auto", see last_whole_checkpoint().
  bool prints_config = false;    ///< --print-config: nothing is opened and trained.
  bool only_evaluates = false;   ///< --evaluate.
  bool only_checks = false;      ///< --check: everything is opened, nothing is trained and written.
  bool evaluates_each_epoch = true;
  int64_t print_freq = 100;
  int64_t profile_steps = 0;      ///< --profile; 0: none.
  int64_t predicted_step_ns = 0;  ///< --predicted-step: what a step was said to take; 0: nothing was.

  bool resumes_if_possible() const { return resume == "auto"; }
};

/// The options as the user gave them: a text with a value of its own is parsed when it is set. set_up() replaces 0, -1
/// or an empty text where the comment says "auto".
struct TrainOptions : DataOptions, ModelOptions, OptimizationOptions, ParallelOptions, LaunchOptions, RunOptions {
  Emulation emulation;
};

/// Default numbers of workers and intra-op threads for a rank that may use `core_count` cores. Together they are as
/// many as there are cores, because OpenMP's threads spin at barriers, and a thread without a core delays all others.
/// LeNet, batch 64, two cores: on an idle machine a step takes 8.5 ms with 1 intra-op thread and 5.1 ms with 2; while
/// other programs run, 14 to 25 ms with 1 and 137 to 714 ms with 2.
struct ThreadCounts {
  int workers = 0, threads = 1;
};
ThreadCounts default_threads(int core_count, bool is_cuda);

/// The value of --print-schedule: drawing or csv; in a file of --config true or false, whether to draw. Throws
/// config_error for another one.
void choose_schedule_form(ParallelOptions& options, const std::string& form);

/// With `auto` training decodes at smaller scales, also where its transforms do not draw at random, and evaluation does
/// not.
DctScale training_dct_scale(const DataOptions& options);
DctScale evaluation_dct_scale(const DataOptions& options);

}  // namespace penstock
