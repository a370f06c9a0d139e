// meet(): the ranks of a run find each other in a store, and make sure that they are about to do the same.
#pragma once

#include "train/rendezvous/announced.h"
#include "train/rendezvous/meeting.h"
#include "train/rendezvous/rendezvous.h"
#include "train/rendezvous/signed_store.h"

namespace penstock::detail {

/// What ranks that have met share.
struct Met {
  c10::intrusive_ptr<c10d::Store> store;
  std::vector<std::string> addresses;  ///< One entry per rank, see announced_addresses().
};

/// Connects to the store at host:port, in which rank 0 listens unless it is hosted, and goes through agree() there.
/// After 10 s, 20 s, 40 s and so on `meeting.log` hears `waiting for rank 1 of 2 at HOST:PORT, 10 s`.
///
/// With a token (Rendezvous) only clients that have it are counted and heard.
///
/// Errors: config_error as agree(). device_error at once when there is no such host, when the port is taken and when
/// this rank's number is there already; after `meeting_seconds` naming the ranks that did not come. A host that name
/// servers cannot resolve yet is waited for as long. Nothing that listens there without an answer and no stopped rank 0
/// can hold a rank for longer.
Met meet(const Rendezvous& rendezvous, const Meeting& meeting);

/// Waits until all ranks are in the store and compares their fingerprints. `wait_for` hears all the time which ranks
/// are missing, "rank 1", and may throw to end the wait. `contact` is there for the others when they return. Throws
/// config_error at every rank when world sizes or fingerprints differ, naming both values; device_error when there is a
/// rank of this number. Waits for ever: the caller has the deadline.
void agree(SignedStore& store, const Rendezvous& rendezvous, const RunFingerprint& fingerprint,
           const std::function<void(const std::string&)>& wait_for, const Contact& contact = {});

/// "rank 1", "ranks 1, 3", "ranks 1, 3, 4 and 12 more".
std::string ranks_text(const std::vector<int>& ranks);

}  // namespace penstock::detail
