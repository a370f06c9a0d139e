// One rank's run: puts the parts together, trains, and writes the results.
#include "train/run/run.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/json_text.h"
#include "core/machine.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/bottleneck/cache_model.h"
#include "train/checkpoint/kept_checkpoints.h"
#include "train/checkpoint/save.h"
#include "train/comm/sim_net.h"
#include "train/feed/counting_feeder.h"
#include "train/feed/host_feeder.h"
#include "train/launch/recovery.h"
#include "train/launch/stop_signals.h"
#include "train/loop/predictions.h"
#include "train/loop/profile.h"
#include "train/loop/training_loop.h"
#include "train/measure/bottleneck.h"
#include "train/measure/gpu_monitor.h"
#include "train/nn/model.h"
#include "train/options/emulated.h"
#include "train/options/options_file.h"
#include "train/resident/resident_feeder.h"
#include "train/run/agreement.h"
#include "train/run/bottleneck_report.h"
#include "train/run/gather.h"
#include "train/run/memory_report.h"
#include "train/run/report.h"
#include "train/run/run_folder.h"
#include "train/run/run_precision.h"
#include "train/tensor/out_of_memory.h"
#include "train/tensor/short_message.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class Run {
 public:
  Run(Setup& setup, const torch::Device& device, Comm& comm)
      : setup_(setup), options_(setup.options), device_(device), comm_(comm), is_first_(comm.rank() == 0) {
    recorder_.use_device(device_);
    strategy_ = StrategyRegistry::make(
        *options_.mode,
        StrategyContext{*setup.model,
                        comm_,
                        device_,
                        optimizer_options(options_),
                        recorder_,
                        options_.emulation,
                        setup.rate_factors,
                        {options_.batch_size, setup.shape.channels, setup.shape.height, setup.shape.width},
                        [&setup] { return make_model(setup); },
                        [this](const std::string& line) { log(line); },
                        options_.exact_shards,
                        options_.seed,
                        setup.is_outline ? [&setup](const UseTensor& use) { for_each_weight(setup, use); }
                                         : std::function<void(const UseTensor&)>(),
                        setup.step_options});
    if (setup.checkpoint) load(*setup.checkpoint);
    if (options_.profile_steps > 0) profile_.emplace(options_, comm_, recorder_, device_.is_cuda(), counts_process());
    if (!options_.only_evaluates) feeder_ = make_feeder(setup.data.train, *setup.pipeline, train_loader_options());
    if (setup.data.test && setup.data.test->size() > 0)
      test_feeder_ = make_feeder(setup.data.test, *setup.eval_pipeline, eval_loader_options());
  }

  int evaluate_only() {
    std::optional<FolderLock> lock;
    if (is_first_) {
      lock.emplace(options_.out);
      std::cout << opening_text(setup_, comm_.backend()) << std::flush;
    }
    comm_.at_step(0);
    const fs::path csv = options_.out / "evaluation.csv", json = options_.out / "evaluation.json";
    const auto table = make_sample_table(setup_.loss->target(), comm_, device_, setup_.data.test, csv);
    const Evaluation evaluation =
        *evaluate(0, {.on_batch = [&](const auto& batch, const auto& outputs, const auto& losses) {
                    table->add(batch, outputs, losses);
                  }});
    if (!is_first_) return 0;
    table->commit();
    write_text(json, evaluation_json(setup_, evaluation, dynamic_cast<const Predictions*>(table.get())));
    std::cout << scores_text(setup_, evaluation) << "written: " << csv.string() << ", " << json.string() << std::endl;
    return 0;
  }

  int train() {
    if (is_first_) open_folder();
    const std::string rank_lines = ranks_text(*feeder_, comm_, device_);
    if (is_first_) std::cout << rank_lines << std::flush;
    if (profile_) profile_->open();
    const StopSignals signals;
    const double queued_ms = queued_threads_ms();
    const int64_t start_ns = now_ns();
    TrainResult result = train_epochs(parts(), options_, setup_.info.position);
    // The kernel counts these for the process, and its ranks are taken to have equal shares.
    const double sharing = setup_.world.has_rank_threads ? comm_.world_size() : 1;
    queued_share_ = (queued_threads_ms() - queued_ms) / std::max(ms_since(start_ns), 1e-3) / sharing;
    result.a_step.process_cpu /= sharing;
    const int code = result.stop_signal != 0 ? stopped(result) : finish(result);
    if (profile_) profile_->write([](const std::string& line) { std::cout << line << std::endl; });
    return code;
  }

 private:
  LoaderOptions train_loader_options() {
    return {.workers = options_.workers,
            .prefetch = options_.prefetch,
            .batch_size = options_.batch_size,
            .rank = strategy_->data_rank(),
            .world_size = strategy_->data_world_size(),
            .tail = *options_.tail,
            .short_batch = short_batch_of(options_.exact_shards),
            .shuffle = *options_.shuffle,
            .subset = options_.subset,
            .exclude_ids = options_.exclude_ids,
            .sampler = options_.sampler,
            .seed = options_.seed,
            .epoch_count = options_.epochs,
            .layout = *options_.layout,
            .on_corrupt = *options_.on_corrupt,
            .quarantine = *options_.on_corrupt == OnCorrupt::kFail ? fs::path() : options_.out / kQuarantine,
            .most_corrupt = 1,  // all ranks decide that together (train_epochs)
            .decode = *options_.decode,
            .dct_scale = training_dct_scale(options_),
            .size_schedule = options_.size_schedule.text(),
            .columns = setup_.loss->target().columns,
            .emulated_load_ns = options_.emulation.load_ns,
            .ends_emulated_load = [] { return StopSignals::received() != 0; },
            .on_chunk = profile_ ? [this](const ChunkTime& chunk) { profile_->on_chunk(chunk); }
                                 : std::function<void(const ChunkTime&)>()};
  }

  LoaderOptions eval_loader_options() {
    auto options = train_loader_options();
    const auto samples = static_cast<int64_t>(setup_.data.test->size());
    options.batch_size = eval_batch(int64_t{setup_.shape.height} * setup_.shape.width, samples, options.world_size,
                                    options_.exact_shards, options_.batch_size);
    options.tail = Tail::kPad;
    options.shuffle = Shuffle::kNone;
    options.subset = options.exclude_ids = options.sampler = options.size_schedule = "";
    if (options.on_corrupt == OnCorrupt::kSubstitute) options.on_corrupt = OnCorrupt::kMask;
    options.dct_scale = evaluation_dct_scale(options_);
    options.emulated_load_ns = 0;
    options.on_chunk = {};
    return options;
  }

  std::unique_ptr<Feeder> make_feeder(const std::shared_ptr<const Dataset>& dataset, const Pipeline& pipeline,
                                      LoaderOptions options) {
    if (!strategy_->is_fed()) return make_counting_feeder(*dataset, options);
    if (options_.is_resident) {
      options.layout = layout_of_rows(precision_of(options_), *setup_.model);
      return make_resident_feeder(dataset, pipeline, options, device_, recorder_,
                                  {.free_bytes = {}, .log = [this](const std::string& line) { log(line); }});
    }
    if (device_.is_cuda()) options.allocator = pinned_slots();
    return make_host_feeder(std::make_unique<Loader>(dataset, pipeline, options), device_, recorder_,
                            pipeline.normalization());
  }

  void load(const Checkpoint& checkpoint) {
    try {
      strategy_->load_state(checkpoint.state);
    } catch (const Error& error) {
      throw Error(error.kind(), concat(options_.resume.string(), ": ", error.what()));
    }
    checkpoint.file->check_read();
  }

  std::optional<Evaluation> evaluate(int64_t pass, const EvaluationCalls& calls = {}) {
    return penstock::evaluate(*strategy_, comm_, *test_feeder_, *setup_.loss, setup_.shape.classes, device_, pass,
                              calls, *options_.test_views, options_.exact_shards);
  }

  void open_folder() {
    // With a checkpoint from another folder, a new run starts in this one.
    std::error_code failure;  // if OUT does not exist yet, it is not the folder of the checkpoint
    const bool is_resumed =
        setup_.checkpoint && fs::equivalent(fs::canonical(options_.resume).parent_path(), options_.out, failure);
    folder_.emplace(options_.out, is_resumed);
    TrainOptions kept = options_;  // a file for --config removes nothing
    kept.replaces_run = kept.repacks = false;
    write_text(options_.out / "options.json", to_json(kept));
    const int64_t resumed_step = is_resumed ? setup_.info.position.step : -1;
    sinks_ = make_sinks({options_.out, resumed_step, std::cout, setup_.info.position.epoch,
                         score_keys(*setup_.loss, setup_.shape.classes, options_.average->is_beside)});
    gpu_use_ = watch_gpu(device_, [](const std::string& line) { std::cerr << concat("train: ", line, "\n"); });
    std::cout << opening_text(setup_, comm_.backend()) << mode_text(setup_, *strategy_, comm_.world_size())
              << std::flush;
  }

  TrainParts parts() {
    TrainParts parts{*strategy_,
                     comm_,
                     *feeder_,
                     recorder_,
                     device_,
                     is_first_ ? &progress_ : nullptr,
                     {},
                     {},
                     {},
                     profile_ ? &*profile_ : nullptr,
                     [this](const std::string& line) { log(line); },
                     [this] {
                       if (const auto text = recovery_text()) log(*text);
                     },
                     setup_.loss->target().is_class()};
    if (is_first_) {
      parts.on_metrics = [this](Metrics metrics) {
        if (gpu_use_) gpu_use_->put(metrics);
        for (const auto& sink : sinks_) sink->write(metrics);
      };
    }
    if (!learns()) return parts;
    if (test_feeder_)
      parts.evaluate = [this](int64_t epoch, const auto& goes_on) { return evaluate(epoch, {.goes_on = goes_on}); };
    parts.save = [this](const Position& position, TrainParts::Save which) { save(position, which); };
    return parts;
  }

  bool learns() const { return options_.emulation.learns(); }

  /// Whether this rank reports what there is once per process.
  bool counts_process() const { return is_first_ || !setup_.world.has_rank_threads; }

  void save(const Position& position, TrainParts::Save which) {
    CheckpointInfo info = setup_.info;
    info.position = position;
    const bool is_last = which == TrainParts::Save::kLast;
    write_checkpoint(
        {*strategy_, comm_, device_},
        is_last ? path_of_checkpoint(options_.out, position.step, options_.keep) : options_.out / kBestCheckpoint, info,
        options_);
    if (is_first_ && is_last) keep_checkpoints(options_.out, position.step, options_.keep);
  }

  void log(const std::string& line) {
    if (!is_first_) return;
    progress_.clear();
    std::cout << line << std::endl;
  }

  int stopped(const TrainResult& result) {
    log(stopped_text(setup_, result, feeder_->batches_per_epoch()));
    return 128 + result.stop_signal;
  }

  int finish(TrainResult result) {
    const bool is_beside = options_.average->is_beside;
    if (learns()) write_model({*strategy_, comm_, device_}, options_.out, options_.arch.text(), is_beside);
    // A run that was resumed after its last epoch has trained nothing, but it evaluates.
    if (!result.evaluation && test_feeder_ && learns()) {
      result.evaluation = evaluate(options_.epochs);
      if (is_beside) result.of_weights = evaluate_weights(*strategy_, [this] { return evaluate(options_.epochs); });
    }
    const auto memory = of_all_ranks(counts_process() ? peak_resident_bytes() : 0, comm_, device_);
    const int64_t all_memory = std::accumulate(memory.begin(), memory.end(), int64_t{0});
    const auto tensors = gather_memory(strategy_->memory(), comm_, device_);
    const auto most_alive = of_all_ranks(strategy_->most_alive(), comm_, device_);
    const auto activations = of_all_ranks(strategy_->activation_bytes(), comm_, device_);
    const RunMeasurement run = observe_all(result);
    if (!is_first_) return 0;
    progress_.clear();
    const Evaluation* evaluation = result.evaluation ? &*result.evaluation : nullptr;
    auto summary = summary_json(setup_, &result, evaluation, all_memory);
    summary["peak_memory_bytes_of_ranks"] = memory;  // 0 at a rank that is a thread of another's process
    if (!tensors.front().empty()) summary["tensor_memory"] = memory_json(tensors);
    if (setup_.world.plan.mesh.pipe > 1) {
      summary["most_alive_activations"] = most_alive;
      summary["activation_bytes"] = *std::max_element(activations.begin(), activations.end());
    }
    const std::string waits = add_waits(run, line_end(), summary) + add_link(summary);
    const auto replicas = strategy_->replica_use();
    if (!replicas.empty()) summary["replicas"] = replicas_json(replicas, result.train_seconds);
    const std::string bottleneck_report = result.step_count > 0 ? judge(run, summary) : std::string();
    write_text(options_.out / "summary.json", json_text(summary, 2) + "\n");
    std::cout << "Total training time: " << seconds_text(result.train_seconds) << resumed_text(setup_) << line_end();
    if (evaluation != nullptr && learns()) std::cout << scores_text(setup_, *evaluation);
    std::cout << skipped_text(result.position);
    if (result.of_weights && learns()) std::cout << scores_of_weights_text(*result.of_weights);
    std::cout << memory_text(tensors, line_end()) << replicas_text(replicas, result.train_seconds, all_memory) << waits
              << bottleneck_report << std::flush;
    return 0;
  }

  std::string line_end() const { return is_emulated(options_) ? " [emulated]\n" : "\n"; }

  /// Collective: what was measured in this run, over all ranks.
  RunMeasurement observe_all(const TrainResult& result) {
    const StepCosts machine{.update_threads = device_.is_cpu() && learns() ? static_cast<double>(options_.threads) : 1,
                            .cores = usable_cores(),
                            .ranks = setup_.world.ranks_sharing_cores,
                            .is_async = device_.is_cuda() && learns()};
    LoopMeasurement mine = observe({.times = machine,
                                    .workers = options_.workers,
                                    .images_per_second = result.images_per_second,
                                    .is_emulated = is_emulated(options_),
                                    .process_queued_ms = queued_share_ * result.a_step.total()},
                                   result.a_step, result.loader, result.step_count);
    if (!counts_process()) mine.link_bytes = 0;  // the counts are those of the process
    RunMeasurement run = over_all_ranks(mine, result.a_step, result.collectives, comm_, device_);
    run.parallel.parts = setup_.world.plan.mesh.pipe;
    run.parallel.micro_batches = strategy_->micro_batches();
    run.parallel.micro_batch_step = options_.exact_shards > 0 ? 0 : strategy_->micro_batch_step();
    run.parallel.balance = options_.mode->get("balance", "");
    run.parallel.has_cut = !options_.mode->get("cut", "").empty();
    run.parallel.predicted_bubble = strategy_->predicted_bubble();
    run.parallel.batch_size = options_.batch_size;
    run.has_loader = !options_.is_resident || !result.loader.workers.empty();
    return run;
  }

  /// The shards that this rank has opened.
  RankShards shard_share() const {
    return needed_shards(
        {.rank = strategy_->data_rank(), .world_size = strategy_->data_world_size(), .shuffle = *options_.shuffle});
  }

  /// Adds what limited the run to its summary, and returns the lines about it.
  std::string judge(RunMeasurement run, nlohmann::ordered_json& summary) {
    ask_storage(run, *setup_.data.train, shard_share());
    if (comm_.world_size() == 1) ask_cache(run, *setup_.data.train, train_loader_options());
    const RunBottleneck bottleneck = find_run_bottleneck(run);
    const auto configuration = configuration_of(setup_);
    summary["limit"] = bottleneck_json(run, bottleneck);
    summary["configuration"] = configuration;
    std::string text = bottleneck.sentence + "\n";
    text += add_predicted_step(options_.predicted_step_ns, run.step_ms, summary);
    const auto log = [&](const std::string& line) { text += line + "\n"; };
    const Settings settings{
        {"workers", run.workers}, {"batch-size", options_.batch_size}, {"micro-batches", run.parallel.micro_batches}};
    const auto past = find_past_prediction(options_.out, configuration, settings, log);
    if (past) {
      summary["prediction"] = {{"summary", past->summary.string()},
                               {past->setting, past->value},
                               {"images_per_second", past->images_per_second},
                               {"error", past->images_per_second / run.images_per_second - 1}};
      log(comparison_text(*past, settings, run));
    }
    return text;
  }

  Setup& setup_;
  TrainOptions& options_;
  torch::Device device_;
  Comm& comm_;
  bool is_first_;
  Recorder recorder_;
  std::unique_ptr<Strategy> strategy_;
  std::optional<Profile> profile_;  // declared before the feeder, whose loader calls it
  std::unique_ptr<Feeder> feeder_, test_feeder_;
  double queued_share_ = 0;  // time that threads queued for a core, summed over the threads / time of the training
  std::optional<RunFolder> folder_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  std::unique_ptr<GpuUse> gpu_use_;  // null: there is no GPU, or no NVML
  ProgressBar progress_{std::cout, isatty(STDOUT_FILENO) != 0};
};

}  // namespace

int run_rank(Setup& setup, Comm& comm) {
  const torch::Device device = rank_device(setup.options, setup.world);
  const auto& options = setup.options;
  const std::string advice = concat("a smaller batch, or a smaller --arch than ", options.arch,
                                    options.is_resident ? ", or no --resident" : "");
  return naming_memory(concat("--batch-size ", options.batch_size), "a step", advice, [&] {
    Run run(setup, device, comm);
    return options.only_evaluates ? run.evaluate_only() : run.train();
  });
}

int run_rank(Setup& setup) {
  const torch::Device device = rank_device(setup.options, setup.world);
  const c10::DeviceGuard current_device(device);  // the device of pinned memory and communicators
  Meeting meeting;
  if (setup.world.rendezvous.world_size > 1) meeting.fingerprint = fingerprint_of(setup);
  meeting.log = [](const std::string& line) { std::cerr << concat("train: ", line, "\n") << std::flush; };
  auto comm = make_comm(setup.world.rendezvous, device, setup.options.dist_backend, meeting);
  comm = make_sim_net(std::move(comm), setup.options.emulation.network);
  try {
    return run_rank(setup, *comm);
  } catch (const std::exception& error) {
    comm->abort(short_message(error));
    throw;
  }
}

}  // namespace penstock
