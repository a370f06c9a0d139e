// SharedMessages: messages between ranks that are processes of one machine, in memory that both see.
#pragma once

#include <torch/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "train/comm/comm.h"
#include "train/comm/shared_channel.h"
#include "train/comm/shared_group.h"
#include "train/comm/shared_memory.h"

namespace penstock::detail {

/// send() copies the message into the channel, and whoever waits for one copies it out. Through sockets, each of them
/// wakes Gloo's threads several times, on the cores that compute. A thread of its own takes part only where a channel
/// had no room: the rank that sent may wait elsewhere, for Gloo, while the peer waits for this message.
///
/// Errors: wait() throws std::runtime_error when a rank has ended, or has not come within the time. Thread-safety: one
/// thread at a time.
class SharedMessages {
 public:
  /// Collective over `comm`; both outlive this. Null at every rank unless all see the memory of all others, or where
  /// they are too many.
  static std::unique_ptr<SharedMessages> meet(Comm& comm, const SharedGroup& group);
  /// What found no room until now is not sent any more.
  ~SharedMessages();
  SharedMessages(const SharedMessages&) = delete;
  SharedMessages& operator=(const SharedMessages&) = delete;

  /// Whether messages of so many bytes are sent here; the others, of which a channel holds few, are not.
  static bool takes(size_t bytes) { return bytes <= SharedChannel::kLongest; }

  /// A message under way. It holds its tensor until it is done.
  struct Transfer {
    Transfer(torch::Tensor what, int peer, int tag) : tensor(std::move(what)), peer(peer), tag(tag) {}
    torch::Tensor tensor;
    int peer, tag;
    std::atomic<bool> is_done = false;
  };
  using Handle = std::shared_ptr<Transfer>;

  /// Contiguous tensors on the CPU, of the same bytes at both ranks. Of two messages with one tag the first one that
  /// was sent goes to the first one that was asked for.
  Handle send(const torch::Tensor& tensor, int peer, int tag);
  Handle receive(const torch::Tensor& tensor, int peer, int tag);
  void wait(const Transfer& transfer, int seconds);

 private:
  struct SetAside {
    int tag;
    std::vector<std::byte> bytes;
  };
  struct Outgoing {
    SharedChannel channel;
    std::deque<Handle> sends = {};  // for which the channel had no room
  };
  struct Incoming {
    SharedChannel channel;
    std::list<Handle> receives = {};     // not come yet
    std::list<SetAside> set_aside = {};  // came before somebody asked for them
  };

  SharedMessages(Comm& comm, const SharedGroup& group, std::vector<SharedMemory> maps);
  void progress();
  /// Returns whether some found no room.
  bool progress_sends(int rank) PENSTOCK_REQUIRES(mutex_);
  bool progress_all_sends() PENSTOCK_REQUIRES(mutex_);
  void progress_receives(int rank);
  void run();
  /// That of `rank`: it changes when that one may go on.
  std::atomic<uint32_t>& bell(int rank) const;
  void ring(int rank);

  const SharedGroup& group_;
  int rank_;
  std::vector<SharedMemory> maps_;  // one entry per rank: its bell, and its channels to all others
  std::vector<Incoming> incoming_;  // one entry per rank, as of the next member

  Mutex mutex_;
  CondVar changed_;
  std::vector<Outgoing> outgoing_ PENSTOCK_GUARDED_BY(mutex_);
  bool is_ending_ PENSTOCK_GUARDED_BY(mutex_) = false;
  bool has_waiting_ PENSTOCK_GUARDED_BY(mutex_) = false;  // sends that found no room
  std::thread thread_;                                    // begins when a send finds none
};

}  // namespace penstock::detail
