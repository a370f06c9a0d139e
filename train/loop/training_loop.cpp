// train_epochs(): steps, sums and times, and when to record, evaluate, save and stop.
#include "train/loop/training_loop.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "loader/batch/loader.h"
#include "train/comm/sum_over_copies.h"
#include "train/loop/adaptation.h"
#include "train/loop/cuda_graph.h"
#include "train/loop/cuda_graph_step.h"
#include "train/loop/readiness.h"
#include "train/loop/step_totals.h"
#include "train/loop/stop.h"
#include "train/options/average.h"
#include "train/options/divergence.h"
#include "train/options/emulated.h"
#include "train/options/rate_schedule.h"

namespace penstock {
namespace {

class Training {
 public:
  Training(const TrainParts& parts, const TrainOptions& options, const Position& start)
      : parts_(parts),
        options_(options),
        schedule_(*options.schedule),
        average_(*options.average),
        at_(start),
        vote_(parts.comm, parts.device, parts.strategy.local_steps()),
        batch_count_(parts.feeder.batches_per_epoch()),
        device_sums_(torch::zeros({2}, torch::dtype(torch::kFloat64).device(parts.device))) {
    begin_adaptation(options, parts.strategy, at_);
    if (at_.batch > 0) learning_rate_ = rate_of_step(done_steps() - 1);
    if (options.captures_steps) begin_capture();
  }

  TrainResult run() {
    if (parts_.profile != nullptr) parts_.profile->plan(options_.epochs * batch_count_ - done_steps());
    while (at_.epoch < options_.epochs && result_.stop_signal == 0) run_epoch();
    if (parts_.profile != nullptr && parts_.profile->is_on()) stop_profile();
    save_end();
    if (at_.epoch >= options_.epochs) result_.stop_signal = 0;  // nothing was left to stop
    result_.position = at_;
    result_.train_seconds = all_.total_ms() * 1e-3;
    result_.load_ms_per_step = all_.per_step(all_.load_ms());
    result_.update_ms_per_step = all_.per_step(all_.total_ms() - all_.load_ms());
    result_.images_per_second = all_.images_per_second();
    result_.a_step = all_.mean_step();
    result_.collectives = parts_.recorder.collectives_of_steps();
    result_.step_count = all_.step_count;
    if (captured_ && parts_.device.is_cuda()) result_.replay_count = captured_->replay_count();
    result_.loader = parts_.feeder.statistics();
    return result_;
  }

 private:
  void run_epoch() {
    parts_.feeder.start_epoch(at_.epoch, at_.batch);
    epoch_ = {};
    const int size = options_.size_schedule->is_empty() ? 0 : options_.size_schedule->size_of(at_.epoch);
    if (std::exchange(said_size_, size) != size)
      log(concat("epoch ", at_.epoch + 1, ": pictures of size ", size, " (--size-schedule)"));
    is_saved_ = false;
    result_.evaluation.reset();
    result_.of_weights.reset();
    parts_.recorder.restart();
    while (result_.stop_signal == 0) {
      if (parts_.profile != nullptr) start_profile_if_due();
      const auto batch = parts_.feeder.next();
      if (!batch) break;
      step(*batch);
      after_step();
      if (parts_.profile != nullptr && parts_.profile->stops_after(step_count())) stop_profile();
    }
    if (at_.batch >= batch_count_) end_epoch();
  }

  double rate_of_step(int64_t step) const {
    const double factor = schedule_.factor(step, options_.epochs * batch_count_, batch_count_);
    return options_.learning_rate * (at_.plateau ? factor * at_.plateau->factor : factor);
  }

  /// Steps up to here with the present number of batches per epoch. A run that was resumed with another batch size has
  /// made another number of steps.
  int64_t done_steps() const { return at_.epoch * batch_count_ + at_.batch; }

  void step(const DeviceBatch& batch) {
    parts_.comm.at_step(at_.step + 1);
    learning_rate_ = rate_of_step(done_steps());
    parts_.strategy.set_learning_rate(learning_rate_);
    if ((at_.step + 1) % options_.print_freq == 0) parts_.strategy.measure_next_step();
    own_since_read_ += captured_ ? captured_->run(batch) : step_and_add(batch);
    own_corrupt_since_read_ += batch.corrupt_count;
    if (options_.clip->is_on() && !was_skipped_) gradient_norms_.push_back(parts_.strategy.gradient_norm());
    since_read_.sample_count += batch.global_count;
    window_.sample_count += batch.global_count;
    ++window_.step_count;
    ++at_.batch;
    ++at_.step;
    is_saved_ = false;
    if (average_.is_due(at_.step))
      parts_.strategy.average_weights(average_.decay_after(done_steps(), options_.epochs * batch_count_),
                                      average_.restarts);
    parts_.recorder.mark(Phase::kOther);
    parts_.recorder.end_step(at_.step, at_.epoch + 1);
  }

  /// Adds the sums of a step to device_sums_. Returns the rows that they are of.
  int64_t step_and_add(const DeviceBatch& batch) {
    const StepSums sums = parts_.strategy.step(batch);
    compression_error_ = sums.compression_error;
    was_skipped_ = sums.is_skipped || !sums.has_rows;
    if (sums.has_rows) adapt_scale(options_, was_skipped_, parts_.strategy, at_);
    device_sums_[0].add_(sums.loss);
    device_sums_[1].add_(sums.correct);
    if (options_.exact_shards > 0) step_losses_.push_back(sums.loss.to(torch::kFloat64));
    return sums.count;
  }

  /// The CPU has the same steps, so that a rehearsal there runs them; one line says that there is no graph.
  void begin_capture() {
    auto* halves = dynamic_cast<CapturableStep*>(&parts_.strategy);
    std::string why = halves == nullptr ? "this mode's cannot be captured" : halves->capture_obstacle();
    if (why.empty() && !parts_.feeder.defer_rendering())
      why = "its batches are not made by the same operations in every step; expected --resident with raw pictures";
    if (why.empty())
      captured_.emplace(parts_.strategy, *halves, parts_.feeder, parts_.recorder, make_device_graph(parts_.device),
                        device_sums_, [this](const std::string& line) { log(line); });
    if (why.empty() && !parts_.device.is_cuda()) why = "the CPU has none";
    if (!why.empty()) log("--graph: the steps run without a graph, because " + why);
  }

  void log(const std::string& line) const {
    if (parts_.log) parts_.log(line);
  }

  int64_t step_count() const { return all_.step_count + window_.step_count; }

  /// The times are taken before a profile starts or stops, so that this is part of no step.
  void start_profile_if_due() {
    if (at_.batch >= batch_count_ || !parts_.profile->starts_after(step_count())) return;
    take_times();
    parts_.profile->start();
  }
  void stop_profile() {
    take_times();
    parts_.profile->stop();
  }

  void after_step() {
    if (step_count() == 1 && parts_.after_first_step) parts_.after_first_step();
    const bool is_last = at_.batch >= batch_count_;
    result_.stop_signal = vote_.ask();
    if (at_.step % options_.print_freq == 0) {
      read_sums();
      take_times();
      report(Metrics::Kind::kStep, printed_, printed_times_, {});
      printed_ = {};
      printed_times_ = {};
    }
    if (!is_last && is_step_due()) save(TrainParts::Save::kLast);
    show_progress();
  }

  bool is_step_due() const { return options_.save_every.steps > 0 && at_.step % options_.save_every.steps == 0; }

  void end_epoch() {
    parts_.strategy.meet();
    read_sums();
    take_times();
    printed_ = {};
    printed_times_ = {};
    const SampleTotals sums{at_.loss_sum, at_.correct_count, at_.sample_count};
    const bool was_evaluated = !is_evaluation_due() || evaluate();
    parts_.recorder.restart();
    if (!was_evaluated) return;
    report(Metrics::Kind::kEpoch, sums, epoch_, result_.evaluation);
    result_.epoch_seconds.push_back(epoch_.total_ms() * 1e-3);
    if (result_.evaluation) {
      const std::string line = follow_plateau(options_, *result_.evaluation, at_);
      if (!line.empty()) log(line);
    }
    const bool was_last_step_due = is_step_due();
    at_ = {.epoch = at_.epoch + 1,
           .step = at_.step,
           .best_accuracy = at_.best_accuracy,
           .plateau = at_.plateau,
           .scale = at_.scale};
    const auto& evaluation = result_.evaluation;
    const bool is_best = evaluation && evaluation->is_better_than(at_.best_accuracy);
    if (is_best) at_.best_accuracy = evaluation->scores.front().value;
    if (is_best) save(TrainParts::Save::kBest);
    const auto every = options_.save_every.epochs;
    if (was_last_step_due || (every > 0 && at_.epoch % every == 0)) save(TrainParts::Save::kLast);
  }

  bool is_evaluation_due() const {
    return parts_.evaluate && (options_.evaluates_each_epoch || at_.epoch + 1 == options_.epochs);
  }

  /// Returns whether it was made to its end: a stop signal before it or within it ends it.
  bool evaluate() {
    const auto goes_on = [this] { return (result_.stop_signal = vote_.ask()) == 0; };
    if (result_.stop_signal == 0) result_.evaluation = parts_.evaluate(at_.epoch, goes_on);
    if (!result_.evaluation || !average_.is_beside) return result_.evaluation.has_value();
    result_.of_weights = evaluate_weights(parts_.strategy, [&] { return parts_.evaluate(at_.epoch, goes_on); });
    if (!result_.of_weights) result_.evaluation.reset();  // it was stopped: the epoch is evaluated again
    return result_.of_weights.has_value();
  }

  /// With --epochs 0 the initial weights are what a run is made for.
  void save_end() {
    const bool is_due = at_.step > 0 ? !is_saved_ : options_.epochs == 0;
    if (is_due) save(TrainParts::Save::kLast);
  }

  void save(TrainParts::Save which) {
    if (!parts_.save) return;
    read_sums();
    take_times();
    parts_.save(at_, which);
    is_saved_ = is_saved_ || which == TrainParts::Save::kLast;
    parts_.recorder.restart();
  }

  /// Collective: sums the sums on the device over all ranks and adds them to `at_` and `printed_`. Waits for the
  /// device.
  void read_sums() {
    if (since_read_.sample_count == 0) return;
    auto sums = counts_corrupt() ? torch::cat({device_sums_, corrupt_sum()}) : device_sums_.clone();
    parts_.comm.all_reduce_sum(sums)->wait();
    const auto host = sums.cpu();
    device_sums_.zero_();
    const double loss = host[0].item<double>();
    const auto correct = static_cast<int64_t>(host[1].item<double>());
    check_finite(loss);
    if (counts_corrupt()) check_corrupt(static_cast<int64_t>(host[2].item<double>()));
    for (const double of_step : read_losses(loss)) {
      printed_.loss += of_step;
      at_.loss_sum += of_step;
    }
    printed_.correct_count += correct;
    printed_.sample_count += since_read_.sample_count;
    at_.correct_count += correct;
    at_.sample_count += since_read_.sample_count;
    since_read_ = {};
    own_since_read_ = own_corrupt_since_read_ = 0;
    parts_.recorder.mark(Phase::kOther);
  }

  /// Collective: what adds up to the losses since the last read. With --exact one entry per step, whose bits depend
  /// neither on ranks nor on when they are read; otherwise `sum`.
  std::vector<double> read_losses(double sum) {
    if (step_losses_.empty()) return {sum};
    const auto own = at::stack(std::exchange(step_losses_, {}));
    const auto losses = sum_over_copies(parts_.comm, parts_.strategy.data_world_size(), own);
    return {losses.data_ptr<double>(), losses.data_ptr<double>() + losses.numel()};
  }

  bool counts_corrupt() const { return *options_.on_corrupt != OnCorrupt::kFail; }

  torch::Tensor corrupt_sum() const {
    return torch::full({1}, static_cast<double>(own_corrupt_since_read_), device_sums_.options());
  }

  /// As for a loss that is not finite, all ranks have the same sum and end here together.
  void check_corrupt(int64_t corrupt_count) {
    corrupt_count_ += corrupt_count;
    row_count_ += since_read_.sample_count;
    check_corrupt_share(concat("epoch ", at_.epoch + 1, ", step ", at_.step), corrupt_count_, row_count_,
                        LoaderOptions().most_corrupt);
  }

  /// The sum is that of all ranks, so that all of them end here together, before anything is written from such weights.
  void check_finite(double loss) const {
    if (std::isfinite(loss)) return;
    throw config_error(concat("epoch ", at_.epoch + 1, ", step ", at_.step, ": the loss has become ",
                              std::isnan(loss) ? "nan" : "infinite", ", ",
                              text_of_divergence(options_, "a finite one")));
  }

  /// Adds the times since the last call to all sums that contain them, and restarts the recorder.
  void take_times() {
    const TimeTotals times = times_now(true);
    for (TimeTotals* sum : {&printed_times_, &epoch_, &all_}) sum->add(times);
    window_ = {};
    parts_.recorder.restart();
  }

  TimeTotals times_now(bool is_complete) const {
    TimeTotals times = window_;
    times.ms = parts_.recorder.times(is_complete);
    return times;
  }

  void report(Metrics::Kind kind, const SampleTotals& sums, const TimeTotals& times,
              const std::optional<Evaluation>& evaluation) {
    if (!parts_.on_metrics) return;
    Metrics metrics{.kind = kind,
                    .epoch = at_.epoch + 1,
                    .epoch_count = options_.epochs,
                    .step = at_.step,
                    .loss = sums.mean_loss(),
                    .learning_rate = learning_rate_,
                    .seconds = times.total_ms() * 1e-3,
                    .images_per_second = times.images_per_second(),
                    .load_ms = times.per_step(times.load_ms()),
                    .update_ms = times.per_step(times.total_ms() - times.load_ms())};
    if (!parts_.counts_hits)
      metrics.accuracy.reset();
    else if (sums.sample_count > 0)
      metrics.accuracy = static_cast<double>(sums.correct_count) / static_cast<double>(sums.sample_count);
    metrics.a_step = times.mean_step();
    metrics.is_emulated = is_emulated(options_);
    metrics.learns = options_.emulation.learns();
    readiness_[static_cast<size_t>(kind)].put(parts_.feeder.statistics(), times.total_ms(),
                                              static_cast<double>(times.step_count), metrics);
    if (evaluation) metrics.test_loss = evaluation->loss, metrics.test_accuracy = evaluation->accuracy();
    if (evaluation && !metrics.test_accuracy)
      for (const auto& score : evaluation->scores) metrics.test_scores.emplace_back(score.key(), score.value);
    if (evaluation && result_.of_weights) add_scores_of_weights(*result_.of_weights, metrics.test_scores);
    if (kind == Metrics::Kind::kStep && compression_error_.defined())
      metrics.compression_error = compression_error_.item<double>();
    metrics.gradient_norms = take_gradient_norms();
    if (parts_.progress != nullptr && (kind == Metrics::Kind::kEpoch || metrics.compression_error))
      parts_.progress->clear();
    parts_.on_metrics(metrics);
  }

  /// An emulated step has none.
  std::vector<double> take_gradient_norms() {
    std::erase_if(gradient_norms_, [](const auto& norm) { return !norm.defined(); });
    if (gradient_norms_.empty()) return {};
    const auto norms = at::stack(std::exchange(gradient_norms_, {})).cpu();
    return {norms.data_ptr<double>(), norms.data_ptr<double>() + norms.numel()};
  }

  /// Waits for the device; called at most ten times per second.
  std::optional<double> loss_so_far() const {
    const LossSum own{device_sums_[0].item<double>(), own_since_read_};
    return running_loss({at_.loss_sum, at_.sample_count}, own, since_read_.sample_count);
  }

  void show_progress() {
    if (parts_.progress == nullptr || !parts_.progress->is_due()) return;
    TimeTotals times = epoch_;
    times.add(times_now(false));
    const int64_t steps_left = options_.epochs * batch_count_ - done_steps();
    parts_.progress->show({.epoch = at_.epoch + 1,
                           .epoch_count = options_.epochs,
                           .step = at_.batch,
                           .step_count = batch_count_,
                           .loss = options_.emulation.learns() ? loss_so_far() : std::nullopt,
                           .images_per_second = times.images_per_second(),
                           .load_share = times.total_ms() > 0 ? times.load_ms() / times.total_ms() : 0,
                           .seconds_left = 1e-3 * times.per_step(times.total_ms()) * static_cast<double>(steps_left)});
  }

  const TrainParts& parts_;
  const TrainOptions& options_;
  RateSchedule schedule_;
  AverageOptions average_;
  Position at_;
  StopVote vote_;
  int64_t batch_count_;
  torch::Tensor device_sums_;               // f64: loss and correct, of this rank since the last read
  std::vector<torch::Tensor> step_losses_;  // with --exact: f64, of this rank, one entry per step since the last read
  SampleTotals since_read_;                 // only sample_count is used: samples of all ranks since the last read
  int64_t own_since_read_ = 0;              // samples of this rank since the last read
  int64_t own_corrupt_since_read_ = 0;      // those that are corrupt
  int64_t corrupt_count_ = 0, row_count_ = 0;  // of all ranks, since this process began
  SampleTotals printed_;                       // sums of all ranks since the last step record
  TimeTotals window_;                          // counts since take_times(); the recorder still has the times
  TimeTotals printed_times_, epoch_, all_;
  std::array<LoaderReadiness, 2> readiness_;  // one entry per kind of record
  double learning_rate_ = 0;
  std::vector<torch::Tensor> gradient_norms_;  // of the steps since the last record
  torch::Tensor compression_error_;            // of the last step; undefined: it was not measured
  bool was_skipped_ = false;                   // the last step, because of an overflow or because it had no rows
  int said_size_ = 0;
  bool is_saved_ = true;                   // the last checkpoint was saved at at_
  std::optional<CudaGraphStep> captured_;  // none: steps run as they are
  TrainResult result_;
};

}  // namespace

TrainResult train_epochs(const TrainParts& parts, const TrainOptions& options, const Position& start) {
  return Training(parts, options, start).run();
}

}  // namespace penstock
