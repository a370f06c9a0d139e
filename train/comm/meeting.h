// Meeting: the ranks of a run find each other in a store, and make sure that they are about to do the same.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "train/comm/comm.h"

namespace penstock::detail {

/// Connects to the store at host:port, in which rank 0 listens unless it is hosted, and goes through agree() there.
/// After 10 s, 20 s, 40 s and so on `meeting.say` hears `waiting for rank 1 of 2 at HOST:PORT, 10 s`.
///
/// Errors: config_error as agree(). device_error at once when there is no such host, when the port is taken and when
/// this rank's number is there already; after `meeting_seconds` naming the ranks that did not come. A host that name
/// servers cannot resolve yet is waited for as long. Nothing that listens there without an answer and no stopped rank 0
/// can hold a rank for longer.
c10::intrusive_ptr<c10d::Store> meet(const Rendezvous& rendezvous, const Meeting& meeting);

/// Waits until all ranks are in the store and compares their terms. `wait_for` hears all the time which ranks
/// are missing, "rank 1", and may throw to end the wait. Throws config_error at every rank when world sizes or terms
/// differ, naming both values; device_error when there is a rank of this number. Waits for ever: the caller has the
/// deadline.
void agree(c10d::Store& store, const Rendezvous& rendezvous, const Terms& terms,
           const std::function<void(const std::string&)>& wait_for);

/// "rank 1", "ranks 1, 3", "ranks 1, 3, 4 and 12 more".
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace penstock::detail
