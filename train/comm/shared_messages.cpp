// SharedMessages: which message goes to whom, and the wait for it.
#include "train/comm/shared_messages.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>

#include "core/text.h"
#include "train/rendezvous/awake_clock.h"

namespace penstock::detail {
namespace {

constexpr int kMostRanks = 16;  // each maps world_size^2 channels

std::span<const std::byte> bytes_of(const torch::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

void fill(const torch::Tensor& tensor, std::span<const std::byte> bytes) {
  if (bytes.size() != tensor.nbytes())
    throw std::runtime_error(concat("a message has ", bytes.size(), " bytes; expected ", tensor.nbytes()));
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
}

}  // namespace

std::unique_ptr<SharedMessages> SharedMessages::meet(Comm& comm, const SharedGroup& group) {
  const int ranks = comm.world_size();
  if (ranks > kMostRanks) return nullptr;
  auto maps = SharedGroup::map_all(comm, kCacheLine + SharedChannel::kMemory * static_cast<size_t>(ranks));
  if (maps.empty()) return nullptr;
  return std::unique_ptr<SharedMessages>(new SharedMessages(comm, group, std::move(maps)));
}

SharedMessages::SharedMessages(Comm& comm, const SharedGroup& group, std::vector<SharedMemory> maps)
    : group_(group), rank_(comm.rank()), maps_(std::move(maps)) {
  const auto channel = [this](int from, int to) {
    return SharedChannel(maps_[static_cast<size_t>(from)].data() + kCacheLine +
                         SharedChannel::kMemory * static_cast<size_t>(to));
  };
  for (auto& map : maps_) map.close_file();
  for (int rank = 0; rank < comm.world_size(); ++rank) {
    outgoing_.push_back({channel(rank_, rank)});
    incoming_.push_back({channel(rank, rank_)});
  }
}

SharedMessages::~SharedMessages() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  wake_all(bell(rank_));
  if (thread_.joinable()) thread_.join();
}

std::atomic<uint32_t>& SharedMessages::bell(int rank) const {
  return *reinterpret_cast<std::atomic<uint32_t>*>(maps_[static_cast<size_t>(rank)].data());
}

void SharedMessages::ring(int rank) {
  bell(rank).fetch_add(1);
  wake_all(bell(rank));
}

SharedMessages::Handle SharedMessages::send(const torch::Tensor& tensor, int peer, int tag) {
  auto transfer = std::make_shared<Transfer>(tensor.contiguous(), peer, tag);
  const MutexLock lock(mutex_);
  outgoing_[static_cast<size_t>(peer)].sends.push_back(transfer);
  if (!progress_sends(peer)) return transfer;
  has_waiting_ = true;
  changed_.notify_one();
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  return transfer;
}

/// Sends what found no room, whenever a peer has made some.
void SharedMessages::run() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(mutex_, [this]() PENSTOCK_REQUIRES(mutex_) { return is_ending_ || has_waiting_; });
    if (is_ending_) return;
    const uint32_t seen = bell(rank_).load();
    has_waiting_ = progress_all_sends();
    if (!has_waiting_) continue;
    lock.unlock();
    wait_while(bell(rank_), seen, kLook);
    lock.lock();
  }
}

SharedMessages::Handle SharedMessages::receive(const torch::Tensor& tensor, int peer, int tag) {
  auto transfer = std::make_shared<Transfer>(tensor, peer, tag);
  auto& from = incoming_[static_cast<size_t>(peer)];
  const auto early =
      std::find_if(from.set_aside.begin(), from.set_aside.end(), [tag](const SetAside& one) { return one.tag == tag; });
  if (early == from.set_aside.end()) {
    from.receives.push_back(transfer);
    return transfer;
  }
  fill(tensor, early->bytes);
  from.set_aside.erase(early);
  transfer->is_done = true;
  return transfer;
}

bool SharedMessages::progress_sends(int rank) {
  auto& to = outgoing_[static_cast<size_t>(rank)];
  bool has_written = false;
  for (; !to.sends.empty() && to.channel.write(to.sends.front()->tag, bytes_of(to.sends.front()->tensor));
       to.sends.pop_front()) {
    to.sends.front()->tensor.reset();
    to.sends.front()->is_done = true;
    has_written = true;
  }
  if (has_written) ring(rank);
  return !to.sends.empty();
}

bool SharedMessages::progress_all_sends() {
  bool has_waiting = false;
  for (int rank = 0; rank < static_cast<int>(outgoing_.size()); ++rank) has_waiting |= progress_sends(rank);
  return has_waiting;
}

void SharedMessages::progress_receives(int rank) {
  auto& from = incoming_[static_cast<size_t>(rank)];
  bool makes_room = false;
  while (!from.receives.empty()) {
    const auto message = from.channel.front();
    if (!message) break;
    const auto wanted = std::find_if(from.receives.begin(), from.receives.end(),
                                     [&](const Handle& one) { return one->tag == message->tag; });
    if (wanted == from.receives.end()) {
      from.set_aside.push_back({message->tag, {message->bytes.begin(), message->bytes.end()}});
    } else {
      fill((*wanted)->tensor, message->bytes);
      (*wanted)->is_done = true;
      (*wanted)->tensor.reset();
      from.receives.erase(wanted);
    }
    makes_room |= from.channel.pop();
  }
  if (makes_room) ring(rank);
}

void SharedMessages::progress() {
  {
    const MutexLock lock(mutex_);
    progress_all_sends();
  }
  for (int rank = 0; rank < static_cast<int>(incoming_.size()); ++rank) progress_receives(rank);
}

void SharedMessages::wait(const Transfer& transfer, int seconds) {
  const int64_t deadline_ns = awake_ns() + int64_t{seconds} * 1'000'000'000;
  while (!transfer.is_done) {
    const uint32_t seen = bell(rank_).load();
    progress();
    if (transfer.is_done) return;
    wait_while(bell(rank_), seen, kLook);
    if (bell(rank_).load() != seen) continue;
    if (group_.has_left(transfer.peer)) {
      progress();  // what it sent before it left
      if (transfer.is_done) return;
      throw std::runtime_error("another rank is gone");
    }
    if (awake_ns() > deadline_ns) throw std::runtime_error("timed out");
  }
}

}  // namespace penstock::detail
