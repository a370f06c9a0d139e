// Heartbeat: how far every rank of a group is, known to each of them, so that a rank that fails others can be named.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "train/rendezvous/signed_store.h"

namespace penstock::detail {

/// Twice a second a thread of each rank writes its step into the store and reads the others'. A rank that was killed or
/// stopped, or whose machine is gone, falls silent; one that computes for long does not.
/// Time in which this process is stopped counts as no silence of the others.
///
/// Cost: the training thread stores two integers; the thread takes about 0.1 ms of a core per second, and with a token
/// 14 us more for each rank.
///
/// Thread-safety: explain() and end() for one thread at a time, the others for any.
class Heartbeat {
 public:
  /// `store`: of the ranks of this group alone; a copy of it with its own connection is used. `launcher_place` is
  /// "HOST:PORT" where the launcher keeps the store; "" where rank 0 does, which is then to blame when it is gone.
  /// With a `token` only ranks that have it are heard, see SignedStore.
  Heartbeat(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
            const std::string& launcher_place = "", const std::string& token = "");
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  void at_step(int64_t step);
  void begin_collective();

  /// After a collective of this rank has failed: who is to blame, as `rank 1 did not come to step 57 within 120 s;
  /// ...`. Takes up to 4 s, because silence has to last before it says anything. `waited_seconds` is 0 where the
  /// collective ended before its time. "" where nobody is found.
  /// `peer` is the rank whose message was waited for, or -1: it is to blame if all ranks live.
  std::string explain(int waited_seconds, int peer = -1);

  /// Whether a rank has ended, at once: one that has said so, or one that has been silent for 10 s, which ranks on busy
  /// cores are not.
  bool has_lost_a_rank() const;

  /// Makes `reason` what every rank's explain() gives, unless a reason is there already. Returns when the others know
  /// it, after 2 s at most.
  void end(const std::string& reason);

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state, SignedStore given);
  std::shared_ptr<State> state_;
};

}  // namespace penstock::detail
