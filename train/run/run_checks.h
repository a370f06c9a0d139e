// Checks of what a run has opened: whether options, mode, data and model fit together.
#pragma once

#include <set>
#include <string>

#include "train/run/setup.h"

namespace penstock {

/// Throws config_error where the data, or how their batches are made, do not give what the loss compares outputs with.
void check_target(const Setup& setup, const TrainOptions& options);

/// Throws config_error where the splits, their pictures or the numbers of their samples do not allow what is asked for.
void check_data(const Setup& setup);

/// Throws config_error where some epochs would have pictures that the model, or the mode, does not take.
void check_sizes(const Setup& setup);

/// What muon changes as vectors. Throws config_error where it would change no matrix and be sgd under another name.
std::set<std::string> checked_no_matrices(const TrainOptions& options, const Model& model);

/// Throws config_error where `mode` would train on single rows in every step, and some BatchNorm of the model has no
/// variance of one row. Where a short batch alone has such a row, why it cannot be trained on; "" where none has.
std::string problem_of_single_rows(const Setup& setup, const Spec& mode, const StepPlan& plan);
/// The same of the run's own mode. Rows with a problem are left out, and a note says so.
void leave_out_single_rows(Setup& setup);

}  // namespace penstock
