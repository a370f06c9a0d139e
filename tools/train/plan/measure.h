// Measuring: ranks of this program that measure the machine together.
#pragma once

#include <vector>

#include "tools/train/plan/options.h"
#include "train/parallel/plan/machine_costs.h"
#include "train/parallel/plan/probe.h"
#include "train/run/setup.h"

namespace penstock {

/// The rows of a rank in a batch of an evaluation, of so many ranks; 0 where nothing is evaluated.
int64_t evaluated_rows(const Setup& setup, int64_t batch_size, int ranks);

/// Starts the ranks that measure, with the arguments of this process, and reads what they have found.
detail::MachineCosts measure_machine(const PlanOptions& options, const std::vector<std::string>& arguments);

/// What predictions need beside what is always measured.
struct PlanNeeds {
  std::vector<detail::PassRequest> passes;
  std::vector<detail::Compression> compressions;
};

/// In such a rank: measures with the others. Rank 0 writes the costs. Returns the exit code.
int run_measuring_rank(const PlanOptions& options, Setup& setup, const PlanNeeds& needs);

}  // namespace penstock
