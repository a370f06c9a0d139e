// SharedMessages: messages between ranks that are processes of one machine, in memory that both see.
#pragma once

#include <torch/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "train/comm/comm.h"
#include "train/comm/shared_channel.h"
#include "train/comm/shared_group.h"
#include "train/comm/shared_memory.h"

namespace penstock::detail {

/// No thread takes part but those that send and wait: send() copies the message into the channel, and whoever waits for
/// one copies it out. Through sockets, each of them wakes Gloo's threads several times, on the cores that compute.
///
/// Errors: wait() throws std::runtime_error when a rank has ended, or has not come within the time. Thread-safety: one
/// thread at a time.
class SharedMessages {
 public:
  /// Collective over `comm`; both outlive this. Null at every rank unless all see the memory of all others, or where
  /// they are too many.
  static std::unique_ptr<SharedMessages> meet(Comm& comm, const SharedGroup& group);

  /// Whether messages of so many bytes are sent here; the others, of which a channel holds few, are not.
  static bool takes(size_t bytes) { return bytes <= SharedChannel::kLongest; }

  /// A message under way. It holds its tensor until it is done.
  struct Transfer {
    torch::Tensor tensor;
    int peer, tag;
    bool is_done = false;
  };
  using Handle = std::shared_ptr<Transfer>;

  /// Contiguous tensors on the CPU, of the same bytes at both ranks. Of two messages with one tag the first one that
  /// was sent goes to the first one that was asked for.
  Handle send(const torch::Tensor& tensor, int peer, int tag);
  Handle receive(const torch::Tensor& tensor, int peer, int tag);
  bool is_done(const Transfer& transfer);
  void wait(const Transfer& transfer, int seconds);

 private:
  struct SetAside {
    int tag;
    std::vector<std::byte> bytes;
  };
  struct Peer {
    SharedChannel out, in;
    std::deque<Handle> sends = {};       // for which the channel had no room
    std::list<Handle> receives = {};     // not come yet
    std::list<SetAside> set_aside = {};  // came before somebody asked for them
  };

  SharedMessages(Comm& comm, const SharedGroup& group, std::vector<SharedMemory> maps);
  void progress();
  void progress_sends(int rank);
  void progress_receives(int rank);
  /// That of `rank`: it changes when that one may go on.
  std::atomic<uint32_t>& bell(int rank) const;
  void ring(int rank);

  const SharedGroup& group_;
  int rank_;
  std::vector<SharedMemory> maps_;  // one entry per rank: its bell, and its channels to all others
  std::vector<Peer> peers_;         // one entry per rank
};

}  // namespace penstock::detail
