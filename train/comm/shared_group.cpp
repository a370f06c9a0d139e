// SharedGroup: how ranks find each other's memory, the two meetings of a collective, and the work between them.
#include "train/comm/shared_group.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "core/clock.h"
#include "core/text.h"
#include "train/rendezvous/awake_clock.h"
#include "train/rendezvous/machine_id.h"
#include "train/tensor/ordered_sum.h"

namespace penstock::detail {
namespace {

constexpr int64_t kBlock = 1 << 14;  // elements added at once: 64 KB of each of two rows stay in a core's cache

bool all_agree(Comm& comm, bool is_right) {
  return comm.all_gather(torch::tensor({is_right ? 1 : 0}, torch::kInt64)).all().item<bool>();
}

/// The elements of all rows that `rank` adds: where they begin and end. Whole cache lines, so that no two ranks write
/// to one.
std::pair<int64_t, int64_t> share_of(int64_t count, int rank, int world_size) {
  constexpr int64_t kAlignment = kCacheLine;  // elements, so at least that many bytes
  const int64_t slice = (count / world_size + kAlignment) / kAlignment * kAlignment;
  return {std::min(count, slice * rank), rank + 1 == world_size ? count : std::min(count, slice * (rank + 1))};
}

/// The sum of the rows from `begin` to `end` comes to all of them.
void add_rows(const std::vector<torch::Tensor>& rows, int64_t begin, int64_t end) {
  for (int64_t first = begin; first < end; first += kBlock) {
    std::vector<torch::Tensor> blocks;
    for (const auto& row : rows) blocks.push_back(row.narrow(0, first, std::min(kBlock, end - first)));
    pairwise_sum(blocks);
    for (size_t row = 1; row < blocks.size(); ++row) blocks[row].copy_(blocks[0]);
  }
}

}  // namespace

std::vector<SharedMemory> SharedGroup::map_all(Comm& comm, size_t bytes) {
  static const int64_t machine = machine_id();
  auto own = SharedMemory::make(bytes);
  const auto told = comm.all_gather(
      torch::tensor({machine, static_cast<int64_t>(getpid()), int64_t{own ? own->file() : -1}}, torch::kInt64));
  Maps maps;
  for (int rank = 0; own && rank < comm.world_size(); ++rank) {
    const auto* place = told[rank].const_data_ptr<int64_t>();
    if (place[0] != machine || place[2] < 0) break;
    auto map =
        rank == comm.rank() ? std::move(own) : SharedMemory::of_process(place[1], static_cast<int>(place[2]), bytes);
    if (!map) break;
    maps.push_back(std::move(*map));
  }
  if (!all_agree(comm, maps.size() == static_cast<size_t>(comm.world_size()))) maps.clear();
  return maps;
}

std::unique_ptr<SharedGroup> SharedGroup::meet(Comm& comm) {
  auto maps = map_all(comm, kCacheLine * static_cast<size_t>(comm.world_size()));
  if (maps.empty()) return nullptr;
  auto seats = std::move(maps.front());
  maps.clear();
  const bool has_seat = seats.take_seat(comm.rank());
  if (!all_agree(comm, has_seat)) return nullptr;
  return std::unique_ptr<SharedGroup>(new SharedGroup(comm, std::move(seats)));
}

SharedGroup::SharedGroup(Comm& comm, SharedMemory seats)
    : comm_(comm), rank_(comm.rank()), world_size_(comm.world_size()), seats_(std::move(seats)) {}

SharedGroup::~SharedGroup() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

torch::Tensor SharedGroup::allocate(int64_t count, const torch::TensorOptions& options) {
  auto maps = map_all(comm_, static_cast<size_t>(count) * options.dtype().itemsize());
  if (maps.empty()) return {};
  const auto rows = std::make_shared<Rows>();
  for (auto& map : maps) {
    map.close_file();
    rows->tensors.push_back(torch::from_blob(map.data(), {count}, options));
  }
  rows->maps = std::move(maps);
  auto* own = rows->maps[static_cast<size_t>(rank_)].data();
  std::erase_if(rows_, [](const auto& entry) { return entry.second.expired(); });
  rows_[own] = rows;
  return torch::from_blob(
      own, {count}, [rows](void*) {}, options);
}

std::shared_ptr<SharedGroup::Rows> SharedGroup::rows_of(const torch::Tensor& tensor) const {
  const auto found = rows_.find(tensor.const_data_ptr());
  const auto rows = found == rows_.end() ? nullptr : found->second.lock();
  const bool is_whole = rows && tensor.is_contiguous() && tensor.numel() == rows->tensors.front().numel() &&
                        tensor.dtype() == rows->tensors.front().dtype();
  return is_whole ? rows : nullptr;
}

SharedGroup::Result SharedGroup::all_reduce_sum(const torch::Tensor& tensor, int seconds) {
  return post(tensor, {}, seconds);
}

SharedGroup::Result SharedGroup::all_gather_into(const torch::Tensor& all, const torch::Tensor& mine, int seconds) {
  return post(all, mine, seconds);
}

SharedGroup::Result SharedGroup::post(const torch::Tensor& tensor, const torch::Tensor& mine, int seconds) {
  Task task{.rows = rows_of(tensor),
            .mine = mine,
            .begin_ns = now_ns(),
            .begin_awake_ns = awake_ns(),
            .seconds = seconds,
            .result = {}};
  auto result = task.result.get_future();
  {
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  return result;
}

void SharedGroup::run() {
  const at::NoGradGuard no_grad;
  std::exception_ptr failure;
  for (;;) {
    MutexLock lock(mutex_);
    changed_.wait(mutex_, [&]() PENSTOCK_REQUIRES(mutex_) { return is_ending_ || !tasks_.empty(); });
    if (is_ending_) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    try {
      if (failure) std::rethrow_exception(failure);
      perform(task);
    } catch (...) {
      failure = std::current_exception();
    }
    task.rows.reset();
    task.mine.reset();
    if (failure)
      task.result.set_exception(failure);
    else
      task.result.set_value(ms_of(busy_.add(task.begin_ns, now_ns())));
  }
}

void SharedGroup::perform(const Task& task) {
  const int64_t deadline_ns = task.begin_awake_ns + int64_t{task.seconds} * 1'000'000'000;
  const auto& rows = task.rows->tensors;
  const auto& own = rows[static_cast<size_t>(rank_)];
  if (!task.mine.defined()) {
    meet_all(deadline_ns);
    const auto [begin, end] = share_of(own.numel(), rank_, world_size_);
    add_rows(rows, begin, end);
    return meet_all(deadline_ns);
  }
  const size_t bytes = task.mine.nbytes();
  const auto place = [&](size_t row, int part) {
    return static_cast<std::byte*>(rows[row].data_ptr()) + bytes * static_cast<size_t>(part);
  };
  auto* own_place = place(static_cast<size_t>(rank_), rank_);
  if (own_place != task.mine.const_data_ptr()) std::memcpy(own_place, task.mine.const_data_ptr(), bytes);
  meet_all(deadline_ns);
  for (int part = 0; part < world_size_; ++part)
    if (part != rank_)
      std::memcpy(place(static_cast<size_t>(rank_), part), place(static_cast<size_t>(part), part), bytes);
  meet_all(deadline_ns);
}

/// Returns when all ranks have come here. What they have written before is seen afterwards.
void SharedGroup::meet_all(int64_t deadline_ns) {
  auto& own = phase(rank_);
  const uint32_t target = own.load(std::memory_order_relaxed) + 1;
  own.store(target, std::memory_order_release);
  wake_all(own);
  for (int rank = 0; rank < world_size_; ++rank) {
    auto& other = phase(rank);
    for (;;) {
      const uint32_t seen = other.load(std::memory_order_acquire);
      if (static_cast<int32_t>(seen - target) >= 0) break;
      wait_while(other, seen, kLook);
      if (other.load(std::memory_order_acquire) != seen) continue;
      if (is_ending_) throw std::runtime_error("this rank ends");
      if (has_left(rank) && other.load(std::memory_order_acquire) == seen)
        throw std::runtime_error("another rank is gone");
      if (awake_ns() > deadline_ns) throw std::runtime_error("timed out");
    }
  }
}

std::atomic<uint32_t>& SharedGroup::phase(int rank) const {
  return *reinterpret_cast<std::atomic<uint32_t>*>(seats_.data() + kCacheLine * static_cast<size_t>(rank));
}

}  // namespace penstock::detail
