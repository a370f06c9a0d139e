// Keys that several modes have, and what is refused about them before ranks start.
//
// Lives here: plug-ins, one per mode: each reads its keys, once, and gives a StepPlan.
// Not here: the step itself (engine), and everything that two modes share except their keys.
#pragma once

#include <cstdint>
#include <string>

#include "core/spec.h"
#include "train/parallel/strategy/mesh.h"

namespace penstock::detail {

/// "--mode pipeline", with which errors begin.
std::string flag(const Spec& spec);

/// Throws config_error unless the key's number is 1 to 65536.
int at_least_one(const Spec& spec, const char* key, int fallback);

/// A batch of `batch_size` rows (0: not known yet), over `copies` of the model, in `count` micro-batches per copy.
struct Division {
  int64_t batch_size = 0;
  int copies = 1, count = 1;
  int step = 1;  // the count must be a multiple of it, which is checked elsewhere
};

/// Throws config_error unless all micro-batches have the same number of rows. `what` names the count as the user typed
/// it, `copies` what copies of the model are called: "accumulate is 3", "ranks".
void check_divides(const Spec& spec, const std::string& what, const std::string& copies, const Division& division);

/// The key `accumulate` of the modes whose ranks hold the whole model: the number of micro-batches that a rank's rows
/// go through the model in. Throws config_error if they do not divide the rows of a rank. With `micro_shards` (--exact)
/// as micro_batches_of_shards().
int accumulate_of(const Spec& spec, int64_t batch_size, int ranks, int micro_shards = 0);

/// The micro-batches of each of `copies` of the model that share the shards of --exact. Throws config_error if they do
/// not divide them, and for another value of `key`, which says the number of micro-batches otherwise. Null: the mode
/// has no such key.
int micro_batches_of_shards(const Spec& spec, const char* key, int micro_shards, int copies,
                            const std::string& copies_name);

/// The key `sync-bn` of the modes with several ranks that hold the whole model. Throws config_error together with
/// `accumulate` or `deferred-bn`, and with `micro_shards`: statistics of a micro-batch over all ranks are still not
/// those of the batch.
bool syncs_batch_norm(const Spec& spec, int micro_shards);

/// The key `deferred-bn` of the modes with micro-batches: BatchNorm's running statistics are those of the whole batch.
/// Throws config_error with `micro_shards`.
bool defers_batch_norm(const Spec& spec, int micro_shards);

/// Throws config_error for an optimiser or a clipping that needs whole parameters, in a mode that cuts them.
void check_takes_slices(const Spec& spec, const MeshRequest& request);

}  // namespace penstock::detail
