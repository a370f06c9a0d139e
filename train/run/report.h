// What `train` prints at the start and at the end, and summary.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/loop/predictions.h"
#include "train/loop/training_loop.h"
#include "train/parallel/strategy/strategy.h"
#include "train/run/setup.h"

namespace penstock {

/// Some lines about data, model, ranks, device, threads and folder. `backend` is that of the ranks' Comm; "": there are
/// no ranks yet.
std::string opening_text(const Setup& setup, const std::string& backend);

/// What each rank holds and does, one line in the same form for every mode:
///
///     mode ddp, 2 ranks with conv1..fc3 (61,706 parameters) each
///     mode pipeline, 2 ranks as 1 data x 2 pipe, 1f1b, 4 micro-batches, bubble 20 %; stage 0: conv1..conv2 (2,572
///     parameters), stage 1: fc1..fc3 (59,134 parameters)
///
/// Before it stands Strategy::left_out(), where there is anything.
std::string mode_text(const Setup& setup, const Strategy& strategy, int rank_count);

/// What to type, after `go on with`, so that a run that was stopped goes on as it was: `--resume
/// OUT/checkpoint-last.safetensors --mode ddp --nproc 2`. Where something else started the ranks, their number and who
/// starts them is said after a comma.
std::string going_on_text(const Setup& setup);

/// `stopped by SIGTERM at epoch 2, step 3 of it, before its evaluation; go on with ...`.
std::string stopped_text(const Setup& setup, const TrainResult& result, int64_t batches_per_epoch);

/// The total time has only the steps after --resume: " since epoch 3, step 10 of it, where --resume went on"; ""
/// without --resume.
std::string resumed_text(const Setup& setup);

/// `Accuracy over the 10000 test samples: 98.95 %`, and one line per class; or `Mean absolute error over the 10000 test
/// samples: 1.25, root mean squared error 1.5`.
std::string scores_text(const Setup& setup, const Evaluation& evaluation);

/// `The weights without averaging: accuracy 98.50 %`; scores as above.
std::string scores_of_weights_text(const Evaluation& evaluation);

/// `f16: 2 of 1,000 steps were skipped, because gradients overflowed; the scale ends at 16384`.
std::string skipped_text(const Position& position);

/// One line per replica: `replica 1 on cuda:1: busy 87 %, peak memory 1.2 GB`. `memory_bytes` is that of the process,
/// in which replicas on the CPU have theirs; `seconds` is the time of all steps.
std::string replicas_text(const std::vector<ReplicaUse>& replicas, double seconds, int64_t memory_bytes);
nlohmann::ordered_json replicas_json(const std::vector<ReplicaUse>& replicas, double seconds);

/// The text of evaluation.json: which weights were evaluated on which data; loss, top-1 and top-5; and for each class
/// its name, top-1, top-5 and row of the confusion matrix, which says how many of its samples were predicted as which
/// class, without zeros. Where the model is not trained on classes, and there are no predictions, scores in place of
/// the accuracies.
std::string evaluation_json(const Setup& setup, const Evaluation& evaluation, const Predictions* predictions);

/// The content of summary.json. `memory_bytes` is the sum of peak_resident_bytes() over the ranks. `result` is null if
/// nothing was trained, and `evaluation` if nothing was evaluated.
nlohmann::ordered_json summary_json(const Setup& setup, const TrainResult* result, const Evaluation* evaluation,
                                    int64_t memory_bytes);

}  // namespace penstock
