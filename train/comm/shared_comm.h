// SharedComm: a Comm around another, whose large collectives go through memory where all ranks are on one machine.
#pragma once

#include <memory>
#include <optional>

#include "train/comm/comm.h"
#include "train/rendezvous/failure_report.h"

namespace penstock::detail {

/// Collective. What it gives has memory of all ranks in allocate(), if they see each other's; collectives on such
/// tensors, and messages, do not go through `inner`. Where they do not, gives `inner`. `part_of`: it is of a part of
/// the run, in which this rank has that number; none: of all ranks.
std::unique_ptr<Comm> make_shared_comm(std::unique_ptr<Comm> inner, std::shared_ptr<FailureReport> failure_report,
                                       std::optional<int> part_of = std::nullopt);

}  // namespace penstock::detail
