// Comm: the collectives that strategies are written against.
//
// Lives here: collectives and messages between ranks: one rank alone, threads, shared memory, Gloo and NCCL, and a
// slower network for emulation.
// Not here: what is sent and when (train/parallel), and how ranks meet (train/rendezvous).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "train/rendezvous/meeting.h"
#include "train/rendezvous/rendezvous.h"

namespace penstock {

/// Tags of messages are below this: simulated networks use those above.
constexpr int kTagLimit = 1 << 28;

/// One rank's end of a group of ranks. Every rank makes the same calls in the same order with tensors of equal shape
/// and dtype on its device.
///
/// Errors: device_error naming rank, operation and cause when a peer is gone or the time-out has passed.
/// Thread-safety: one thread at a time.
class Comm {
 public:
  /// A collective under way. The tensor belongs to it until wait() has returned (CUDA: until the current stream waits
  /// for it).
  class Work {
   public:
    virtual ~Work() = default;
    /// Afterwards this holds no tensor any more, and another call does nothing.
    virtual void wait() = 0;
    /// Milliseconds in which this collective was under way, without time that already counts for another one of the
    /// group; none while it is under way.
    virtual std::optional<double> under_way_ms() { return 0; }
  };

  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  /// self, threads, gloo, "gloo and shared memory", nccl
  virtual std::string backend() const = 0;

  /// Collective: zeros in one dimension, for tensors that live long and that collectives are called with whole. On the
  /// CPU these are faster there if all ranks are on one machine.
  virtual torch::Tensor allocate(int64_t count, const torch::TensorOptions& options) {
    return torch::zeros({count}, options);
  }
  /// Whether all_reduce_sum() and reduce_scatter_sum() of this tensor add those of the ranks as pairwise_sum() does.
  /// Two ranks always do, because a + b has the bits of b + a.
  virtual bool adds_pairwise(const torch::Tensor&) const { return world_size() <= 2; }

  virtual std::unique_ptr<Work> all_reduce_sum(torch::Tensor& tensor) = 0;  ///< In place, starts at once.
  /// Row r of the ranks' `all`, seen as world_size rows, is summed into rank r's `mine`. Starts at once; `all` is
  /// destroyed.
  virtual std::unique_ptr<Work> reduce_scatter_sum(torch::Tensor& mine, torch::Tensor& all) = 0;
  virtual void broadcast(torch::Tensor& tensor, int root) = 0;
  /// The ranks' tensors stacked along a new first dimension, in rank order.
  virtual torch::Tensor all_gather(const torch::Tensor& tensor) = 0;
  /// The ranks' tensors one after the other in `all`, in rank order. Starts at once; `mine` may be a view of its place
  /// there, and must stay as it is until wait() has returned.
  virtual std::unique_ptr<Work> all_gather_into(torch::Tensor& all, const torch::Tensor& mine) = 0;
  virtual void barrier() = 0;

  /// To and from one rank; `tag` tells messages between the same two ranks apart, `what` names this one in errors: "the
  /// activation of micro-batch 3". Both start at once; the tensor must stay as it is until wait() has returned.
  virtual std::unique_ptr<Work> send(const torch::Tensor& tensor, int peer, int tag, const std::string& what) = 0;
  virtual std::unique_ptr<Work> receive(torch::Tensor& tensor, int peer, int tag, const std::string& what) = 0;

  /// Collective: the group of those ranks that give the same `color`, in the order of their ranks. This one must
  /// outlive it.
  virtual std::unique_ptr<Comm> split(int color) = 0;

  /// This rank begins `step`. Costs a store to memory; it is what other ranks name when they wait for this one. With
  /// the first call the ranks have met and built their models: until then a wait may last as long as the meeting, from
  /// now on as long as a step.
  virtual void at_step(int64_t step) = 0;
  /// This rank ends because of `reason`: what other ranks wait for fails, and they name it. Only the first reason of
  /// all ranks counts. Returns when they know it, after 2 s at most.
  virtual void abort(const std::string& reason) = 0;
};

/// How many threads make_comm() starts at most: LibTorch's store and Gloo 5, the meeting, the heartbeat and the sums in
/// shared memory the others.
constexpr int kCommunicatorThreads = 9;

std::unique_ptr<Comm> make_self_comm();
/// backend: auto (nccl on CUDA; on the CPU gloo, and shared memory where all ranks are on one machine), gloo, nccl. One
/// rank gives the self comm. Gloo stages CUDA tensors on the host. Rank 0 listens on the address that
/// detail::address_to_listen_on() gives. Throws config_error for an unknown backend, for nccl on the CPU, and at all
/// ranks where fingerprints differ; device_error when the ranks do not meet.
std::unique_ptr<Comm> make_comm(const Rendezvous& rendezvous, const torch::Device& device, const std::string& backend,
                                const Meeting& meeting = {});

}  // namespace penstock
