// Probe: measures a machine's costs with the classes that a run uses, on random numbers.
#pragma once

#include "train/comm/comm.h"
#include "train/losses/loss.h"
#include "train/parallel/plan/machine_costs.h"
#include "train/parallel/plan/probe_options.h"

namespace penstock {

class Model;

namespace detail {

/// Collective over two ranks or more. As many of them as there are cores, and two at least, compute beside each other:
/// rank 0 measures alone while the others wait, and then with them. Collectives are measured over these, and over all
/// ranks. At rank 0 the costs without `setting`, `cores` and `load`; elsewhere nothing of use. Changes the model's
/// weights.
MachineCosts probe(Comm& all, Model& model, const Loss& loss, const ProbeOptions& options);

}  // namespace detail
}  // namespace penstock
