// FailureReport: what a failed collective is told as: by which rank, and who is to blame for it.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "core/error.h"
#include "train/rendezvous/heartbeat.h"
#include "train/rendezvous/rendezvous.h"

namespace penstock::detail {

/// One per rank of a run, for all its groups. Thread-safety: as Comm has it.
class FailureReport {
 public:
  /// `backend`: its name in messages.
  FailureReport(const c10::intrusive_ptr<c10d::Store>& store, const Rendezvous& rendezvous, const std::string& backend);

  /// Runs a collective, a message, or a part of one; whatever it throws becomes a device_error. `peer`: the rank that
  /// the message is from or for; -1: all.
  template <class Body>
  auto guarded(const std::string& operation, const Body& body, int peer = -1) {
    try {
      return body();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw failure(operation, error, peer);
    }
  }

  /// Runs `connect`, which may wait for ranks that are gone, on a thread of its own, and returns what it makes. Ends at
  /// the latest after seconds() or when a rank has ended, and then leaves that thread behind. All ranks hear of its
  /// failure, which names the ranks' `addresses`.
  c10::intrusive_ptr<c10d::Backend> connect(std::function<c10::intrusive_ptr<c10d::Backend>()> connect,
                                            const std::string& addresses);

  /// The same for a collective that begins. Only those of the whole run tell how far each rank is.
  template <class Body>
  auto collective(const std::string& operation, bool is_of_part, const Body& body) {
    if (!is_of_part) heartbeat_.begin_collective();
    return guarded(operation, body);
  }

  const std::string& backend() const { return backend_; }
  /// The longest collective now.
  int seconds() const { return seconds_; }
  /// `backend`, of the run or of a part of it, was made with seconds(). NCCL's gets those of a step when steps begin.
  /// Gloo's waits for a day from now on: wait() measures the time.
  void add(const c10::intrusive_ptr<c10d::Backend>& backend);
  /// Waits for a collective, as long as seconds(), in which this process was not stopped. Where that is over, Gloo's
  /// threads are left behind until the process ends, because nothing else ends a collective. Throws.
  void wait(c10d::Work& work);
  void at_step(int64_t step);
  /// See Heartbeat.
  void end(const std::string& reason) { heartbeat_.end(reason); }

 private:
  Error failure(const std::string& operation, const std::exception& error, int peer,
                const std::string& advice = "another rank has ended or hangs, its message says why");

  Heartbeat heartbeat_;
  std::string backend_, where_;
  int rank_, step_seconds_, seconds_;
  std::vector<c10::weak_intrusive_ptr<c10d::Backend>> backends_;
};

}  // namespace penstock::detail
