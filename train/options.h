// TrainOptions: everything a run of the trainer depends on, checked before any thread or rank starts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "loader/loader.h"

namespace penstock {

/// When checkpoints are written. Both 0: at the end only.
struct SaveEvery {
  int64_t steps = 0;
  int64_t epochs = 1;
};

/// "100 steps", "100" (steps), "1 epoch", "0" (never). Throws config_error.
SaveEvery parse_save_every(const std::string& text);
std::string to_string(const SaveEvery& save_every);

/// "1.2ms", "100us", "3s", "500ns" as nanoseconds; "" as 0. Throws config_error naming the flag for anything else, also
/// for a number without a unit.
int64_t parse_duration_ns(const std::string& flag, const std::string& text);

/// As the user gave them. 0 or an empty text in a field whose comment says "auto" is replaced by resolve().
struct TrainOptions {
  std::string data = "digits";  ///< A folder, an embedded source or `source:folder`.
  std::string split = "train";
  std::filesystem::path cache;  ///< Where foreign sources are packed; auto: default_cache().
  std::string augment;
  std::string eval_augment;  ///< Auto: deterministic_part() of `augment`.
  std::string shuffle = "global", tail = "pad", layout = "f32";
  std::string decode = "auto", dct_scale = "auto";  ///< Of JPEGs, in training and evaluation.
  int64_t batch_size = 64;                          ///< Of all ranks together.
  int workers = -1;                                 ///< -1: auto.
  int prefetch = 4;
  bool is_resident = false;

  std::string arch = "lenet", mode = "single";
  std::filesystem::path pretrained;
  bool has_new_head = false;  ///< --new-head: of the pretrained weights all but those of the last stage are taken.
  std::string freeze;         ///< Layers that are not trained: "stem,layer1".
  std::string layer_rates;    ///< --layer-lr: factors of the learning rate: "layer4=0.1,fc=10".
  int64_t epochs = 10;
  double learning_rate = 0.05, momentum = 0.9, weight_decay = 5e-4;
  std::string schedule = "cosine";
  uint64_t seed = 0;

  std::string device = "auto";
  int gpu = -1;
  int threads = 0;                ///< Intra-op; 0: auto.
  int nproc = 0;                  ///< 0: auto.
  int world_size = 0, rank = -1;  ///< As a launcher that sets no variables gives them; 0 and -1: not given.
  std::string dist_url, dist_backend = "auto";
  std::string interface;      ///< Of the network, as eth0: ranks meet and talk on it alone; empty: see Rendezvous.
  int timeout_seconds = 120;  ///< The longest wait for other ranks in a step; five times that until all are there.

  std::vector<std::string> plugins;  ///< Files that were loaded.

  std::filesystem::path out;  ///< Auto: runs/<arch>-<mode>-<time>.
  SaveEvery save_every;
  std::filesystem::path resume;
  bool only_evaluates = false;  ///< --evaluate.
  bool evaluates_each_epoch = true;
  int64_t print_freq = 100;
  int64_t profile_steps = 0;     ///< --profile; 0: none.
  int64_t emulated_step_ns = 0;  ///< Forward, backward and update are a wait of this long; 0: they are real.
  int64_t emulated_load_ns = 0;  ///< Processor time wasted on every sample.

  bool is_emulated() const { return emulated_step_ns > 0 || emulated_load_ns > 0; }
};

/// Ranges and names of single options. Throws config_error naming the flag: `--workers is -3; expected 0 or more`.
void check(const TrainOptions& options, const std::vector<std::string>& archs, const std::vector<std::string>& modes);

/// Workers and intra-op threads of one rank that may use `core_count` cores: together as many as there are cores,
/// because OpenMP's threads spin at barriers and one that has no core holds up the others. LeNet, batch 64, two cores:
/// on an idle machine a step takes 8.5 ms with 1 intra-op thread and 5.1 ms with 2; beside other load 14 to 25 ms with
/// 1 and 137 to 714 ms with 2.
struct ThreadShare {
  int workers = 0, threads = 1;
};
ThreadShare default_threads(int core_count, bool is_cuda);

Shuffle shuffle_of(const TrainOptions& options);
Tail tail_of(const TrainOptions& options);
Layout layout_of(const TrainOptions& options);
DecodePath decode_of(const TrainOptions& options);

/// options.json: one key a flag, in the flags' spelling, sorted.
std::string to_json(const TrainOptions& options);

}  // namespace penstock
