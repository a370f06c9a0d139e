// sim_net: a slower network than the one that there is.
#pragma once

#include <memory>
#include <optional>

#include "train/comm/comm.h"
#include "train/comm/network_model.h"

namespace penstock {

/// Without `net`, or for one rank: `inner`. Otherwise `inner`, in which whatever ranks tell each other takes at least
/// as long as over `net`. Each rank has one link of that rate into the network, which the groups that split() gives
/// share. For W ranks and a tensor of n bytes:
///
///     a message                   n bytes                delay
///     all-reduce                  2 n (W - 1) / W        2 (W - 1) delays
///     reduce-scatter, all-gather  n (W - 1) / W          W - 1 delays        n: of all ranks together
///     broadcast                   n                      W - 1 delays
///     barrier                     none                   2 (W - 1) delays
///
/// A collective ends at all ranks when the share of the last one has arrived. What arrives at a rank from several
/// others at once holds nobody up, and split() itself takes no longer. For this the ranks tell each other when their
/// shares are due, in a message or an all-reduce of its own that is not delayed (some 0.1 ms over Gloo).
///
/// Work::wait() sleeps until the inner work is done and the time has come; that of a send, until the last byte has
/// left. Work::under_way_ms() is known after wait() and contains the simulated time.
///
/// Requires ranks of one machine, because they compare its clock, and collectives that end in wait(): Gloo or threads,
/// not NCCL.
std::unique_ptr<Comm> make_sim_net(std::unique_ptr<Comm> inner, const std::optional<NetworkModel>& net);

}  // namespace penstock
