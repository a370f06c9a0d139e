// SharedComm: a Comm around another, whose large collectives go through memory where all ranks are on one machine.
#pragma once

#include <memory>

#include "train/comm/comm.h"
#include "train/rendezvous/failure_report.h"

namespace penstock::detail {

/// Collective. What it gives has memory of all ranks in allocate(), if they see each other's; collectives on such
/// tensors do not go through `inner`. Where they do not, gives `inner`. `is_part`: it is not of the whole run.
std::unique_ptr<Comm> make_shared_comm(std::unique_ptr<Comm> inner, std::shared_ptr<FailureReport> failure_report,
                                       bool is_part = false);

}  // namespace penstock::detail
