// Comm: the collectives that strategies are written against.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "train/comm/rendezvous.h"

namespace penstock {

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
    virtual void wait() = 0;
    /// Milliseconds in which this collective was under way and none that ended before it; none as long as it is.
    virtual std::optional<double> under_way_ms() { return 0; }
  };

  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  virtual std::string backend() const = 0;  ///< self, gloo, nccl

  virtual std::unique_ptr<Work> all_reduce_sum(torch::Tensor& tensor) = 0;  ///< In place, starts at once.
  virtual void broadcast(torch::Tensor& tensor, int root) = 0;
  /// The ranks' tensors stacked along a new first dimension, in rank order.
  virtual torch::Tensor all_gather(const torch::Tensor& tensor) = 0;
  virtual void barrier() = 0;
};

/// What make_comm() starts beside the caller's thread: 2 of Gloo's loops, 2 of the group's workers, rank 0's store.
constexpr int kCommunicatorThreads = 5;

std::unique_ptr<Comm> make_self_comm();
/// backend: auto (nccl on CUDA, gloo on CPU), gloo, nccl. One rank gives the self comm. Gloo stages CUDA tensors on the
/// host. When the host is a loopback address, nothing listens on any other interface. Throws config_error for an
/// unknown backend and nccl on the CPU, device_error when the ranks do not meet in time.
std::unique_ptr<Comm> make_comm(const Rendezvous& rendezvous, const torch::Device& device, const std::string& backend);

}  // namespace penstock
