// Schedule file: what all ranks of a pipeline do, as a text in PyTorch's format.
#pragma once

#include <string>
#include <string_view>

#include "train/parallel/strategy/schedule.h"

namespace penstock::detail {

/// Whether the key `schedule` names a file.
inline bool is_schedule_file(const std::string& name) { return name.ends_with(".csv"); }

/// Reads the format of torch.distributed.pipelining (`_load_csv`, both the compute-only one and the one with messages):
/// CSV with one row per rank, whose cells are `[stage][operation][micro-batch]`, as 2F0, in the order in which the rank
/// runs them; an empty cell is a wait.
///
///   F                               forward
///   B                               the whole backward
///   I, W                            its two halves: gradient of the stage's input, of its weights
///   SEND_F, RECV_F, SEND_B, RECV_B  messages: outputs to the next stage, gradients to the one before
///   (1F4;2B0)OVERLAP_F_B            several operations, one after the other
///   UNSHARD, RESHARD, REDUCE_GRAD   passed over: they are for stages whose parameters are in slices
///
/// Messages are checked and then left out, because StageLink sends an output when it is there and receives an input
/// when it is needed. A file has all of them or none.
///
/// Errors: config_error `<where>: row 2 (rank 1), column 7: ...` for anything but operations, a stage at two ranks, an
/// operation that comes twice, that is missing or that comes before what it needs, and for rows that would wait for
/// each other for ever; rows and columns count from 1. io_error if the file cannot be read.
PlacedSchedules read_schedule_file(const std::string& path);
PlacedSchedules parse_schedule(const std::string& where, std::string_view text);

/// The compute-only format. Operation::recomputes has no word there and is left out.
std::string csv_of(const PlacedSchedules& schedules);

}  // namespace penstock::detail
