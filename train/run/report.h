// What `train` prints before and after, and summary.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "train/predictions.h"
#include "train/run/setup.h"
#include "train/trainer.h"

namespace penstock {

/// Two or three lines: data, model, ranks, device, threads, folder.
std::string opening_text(const Setup& setup, const Comm& comm);

/// `Accuracy over the 10000 test samples: 98.95 %`, and a line for each class.
std::string accuracy_text(const Evaluation& evaluation, const std::vector<std::string>& class_names);

/// Bytes of this process's largest resident set so far.
int64_t peak_memory_bytes();

/// evaluation.json: what was evaluated on what; loss, top-1 and top-5; the same for each class by name, with its row of
/// the confusion matrix: how many of its samples were taken for which class, without zeros.
std::string evaluation_json(const Setup& setup, const Evaluation& evaluation, const std::vector<ClassTally>& classes);

/// summary.json. `memory_bytes` is the sum over ranks of their peak_memory_bytes(). `result` may be null: only
/// evaluated.
nlohmann::ordered_json summary_json(const Setup& setup, const TrainResult* result, const Evaluation* evaluation,
                                    int64_t memory_bytes);

}  // namespace penstock
