// Thread comm: ranks post their tensors, and the last one to come does the work for all.
#include "train/comm/thread_comm.h"

#include <chrono>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <thread>
#include <tuple>

#include "core/clock.h"
#include "core/error.h"
#include "core/mutex.h"
#include "core/text.h"
#include "train/comm/busy_time.h"
#include "train/tensor/ordered_sum.h"

namespace penstock {
namespace {

/// What all groups of a run share: when one rank ends, those that wait in any group hear of it.
struct ThreadRun {
  ThreadRun(int count, int step_seconds, int meeting_seconds)
      : step_seconds(step_seconds), meeting_seconds(meeting_seconds), steps(static_cast<size_t>(count)) {}

  const int step_seconds, meeting_seconds;
  Mutex mutex;  // also of everything in all groups
  CondVar changed;
  // One entry per rank of the run; none: it has not begun one.
  std::vector<std::optional<int64_t>> steps PENSTOCK_GUARDED_BY(mutex);
  std::string reason PENSTOCK_GUARDED_BY(mutex);  // why the run has failed; empty: it has not
};

class ThreadGroup {
 public:
  /// What each rank brings to a collective; one entry per rank.
  using Tensors = std::vector<torch::Tensor>;
  using Combine = std::function<void(Tensors&)>;

  /// `world_ranks`: one entry per rank of the group, its rank in the run.
  ThreadGroup(std::shared_ptr<ThreadRun> run, std::vector<int> world_ranks)
      : run_(std::move(run)),
        world_ranks_(std::move(world_ranks)),
        next_(world_ranks_.size(), 0),
        threads_(next_.size()) {}

  int size() const { return static_cast<int>(world_ranks_.size()); }
  int world_rank(int rank) const { return world_ranks_[static_cast<size_t>(rank)]; }

  /// Brings `tensor` to this rank's next collective. The last rank to come calls `combine`. Returns the number of the
  /// collective.
  int64_t post(int rank, const torch::Tensor& tensor, const Combine& combine) {
    MutexLock lock(run_->mutex);
    const int64_t number = next_[static_cast<size_t>(rank)]++;
    auto& collective = collectives_[number];
    collective.tensors.resize(world_ranks_.size());
    collective.tensors[static_cast<size_t>(rank)] = tensor;
    if (++collective.posted < size()) return number;
    lock.unlock();  // the others may go on to their next one meanwhile; an entry of a map stays where it is
    at::NoGradGuard no_grad;
    combine(collective.tensors);
    lock.lock();
    collective.end_ns = now_ns();
    run_->changed.notify_all();
    return number;
  }

  /// Gives the time when it had ended.
  int64_t wait(int rank, int64_t number, const std::string& operation) {
    const MutexLock lock(run_->mutex);
    auto& collective = collectives_[number];
    refuse_to_wait_in_backward(collective, rank, operation);
    wait_until(rank, operation, [&] { return collective.end_ns > 0; });
    const int64_t end_ns = collective.end_ns;
    if (++collective.seen == size()) collectives_.erase(number);
    return end_ns;
  }

  /// The rank trains on the calling thread.
  void use_this_thread(int rank) {
    const MutexLock lock(run_->mutex);
    threads_[static_cast<size_t>(rank)] = std::this_thread::get_id();
  }

  void send(int from, int to, int tag, const torch::Tensor& tensor) {
    auto copy = tensor.detach().clone();
    const MutexLock lock(run_->mutex);
    mail_[{from, to, tag}].push_back(std::move(copy));
    run_->changed.notify_all();
  }

  void receive(int from, int to, int tag, torch::Tensor& tensor, const std::string& operation) {
    MutexLock lock(run_->mutex);
    auto& box = mail_[{from, to, tag}];
    wait_until(to, operation, [&] { return !box.empty(); });
    const auto message = std::move(box.front());
    box.pop_front();
    lock.unlock();
    at::NoGradGuard no_grad;
    tensor.copy_(message);
  }

  void at_step(int rank, int64_t step) {
    const MutexLock lock(run_->mutex);
    run_->steps[static_cast<size_t>(world_rank(rank))] = step;
  }

  void abort(int rank, const std::string& reason) {
    const MutexLock lock(run_->mutex);
    if (run_->reason.empty()) run_->reason = concat("rank ", world_rank(rank), " has ended: ", reason);
    run_->changed.notify_all();
  }

  /// The group of those that give the same `color` in their split `number`.
  std::shared_ptr<ThreadGroup> part(int64_t number, int64_t color, const std::vector<int>& world_ranks) {
    const MutexLock lock(run_->mutex);
    auto& group = parts_[{number, color}];
    if (!group) group = std::make_shared<ThreadGroup>(run_, world_ranks);
    return group;
  }

 private:
  struct Collective {
    Tensors tensors;
    int posted = 0, seen = 0;  // ranks
    int64_t end_ns = 0;        // 0: it has not ended
  };

  /// Autograd has one thread per GPU, and it runs the hooks of all ranks that share the GPU: while it waits for a rank,
  /// that rank cannot come. On the CPU every rank runs its own hooks.
  void refuse_to_wait_in_backward(const Collective& collective, int rank, const std::string& operation) const
      PENSTOCK_REQUIRES(run_->mutex) {
    const auto index = static_cast<size_t>(rank);
    const auto& own = collective.tensors[index];
    const auto& thread = threads_[index];
    const bool is_its_own = thread == std::thread::id() || thread == std::this_thread::get_id();
    if (is_its_own || collective.end_ns > 0 || !own.defined() || !own.is_cuda()) return;
    throw device_error(concat("rank ", world_rank(rank), ": threads: ", operation,
                              ": is waited for in backward, which ranks that share a GPU do on one thread; expected ",
                              "ranks that are processes (--hosting processes)"));
  }

  template <class Condition>
  void wait_until(int rank, const std::string& operation, const Condition& is_there) PENSTOCK_REQUIRES(run_->mutex) {
    const bool is_in_a_step = run_->steps[static_cast<size_t>(world_rank(rank))].has_value();
    const int seconds = is_in_a_step ? run_->step_seconds : run_->meeting_seconds;
    run_->changed.wait_for(run_->mutex, std::chrono::seconds(seconds),
                           [&]() PENSTOCK_REQUIRES(run_->mutex) { return is_there() || !run_->reason.empty(); });
    if (is_there()) return;
    const std::string why =
        !run_->reason.empty() ? run_->reason : concat("nothing came within ", seconds, " s; ", slowest_text(rank));
    throw device_error(concat("rank ", world_rank(rank), ": threads: ", operation, ": ", why));
  }

  int64_t step_of(int rank) const PENSTOCK_REQUIRES(run_->mutex) {
    return run_->steps[static_cast<size_t>(world_rank(rank))].value_or(0);
  }

  std::string slowest_text(int rank) const PENSTOCK_REQUIRES(run_->mutex) {
    int slowest = rank == 0 && size() > 1 ? 1 : 0;
    for (int other = 0; other < size(); ++other)
      if (other != rank && step_of(other) < step_of(slowest)) slowest = other;
    return concat("rank ", world_rank(slowest), " is at step ", step_of(slowest));
  }

  const std::shared_ptr<ThreadRun> run_;
  const std::vector<int> world_ranks_;
  std::vector<int64_t> next_ PENSTOCK_GUARDED_BY(run_->mutex);  // one entry per rank: the number of its next collective
  // One entry per rank: the one that trains, once it is known.
  std::vector<std::thread::id> threads_ PENSTOCK_GUARDED_BY(run_->mutex);
  std::map<int64_t, Collective> collectives_ PENSTOCK_GUARDED_BY(run_->mutex);
  // By sender, receiver and tag.
  std::map<std::tuple<int, int, int>, std::deque<torch::Tensor>> mail_ PENSTOCK_GUARDED_BY(run_->mutex);
  std::map<std::pair<int64_t, int64_t>, std::shared_ptr<ThreadGroup>> parts_ PENSTOCK_GUARDED_BY(run_->mutex);
};

/// A message.
class ThreadWork final : public Comm::Work {
 public:
  explicit ThreadWork(std::function<void()> wait = {}) : wait_(std::move(wait)) {}
  void wait() override {
    if (wait_) std::exchange(wait_, {})();
  }

 private:
  std::function<void()> wait_;
};

/// A collective of one rank.
class CollectiveWork final : public Comm::Work {
 public:
  struct Parts {
    std::shared_ptr<ThreadGroup> group;  // null: it was waited for
    int rank = 0;
    int64_t number = 0, begin_ns = 0;
    std::string operation;
    std::function<void()> finish;  // called when all have been combined; or empty
    std::shared_ptr<detail::BusyTime> busy;
  };
  explicit CollectiveWork(Parts parts) : parts_(std::move(parts)) {}
  void wait() override {
    if (!parts_.group) return;
    const Parts parts = std::exchange(parts_, {});
    const int64_t end_ns = parts.group->wait(parts.rank, parts.number, parts.operation);
    if (parts.finish) parts.finish();
    under_way_ms_ = ms_of(parts.busy->add(parts.begin_ns, end_ns));
  }
  std::optional<double> under_way_ms() override { return parts_.group ? std::nullopt : std::optional(under_way_ms_); }

 private:
  Parts parts_;
  double under_way_ms_ = 0;
};

class ThreadComm final : public Comm {
 public:
  ThreadComm(std::shared_ptr<ThreadGroup> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int world_size() const override { return group_->size(); }
  std::string backend() const override { return "threads"; }
  bool adds_pairwise(const torch::Tensor&) const override { return true; }

  std::unique_ptr<Work> all_reduce_sum(torch::Tensor& tensor) override {
    return started("all_reduce", tensor, [](auto& all) {
      detail::pairwise_sum(all);
      for (size_t rank = 1; rank < all.size(); ++rank) all[rank].copy_(all[0]);
    });
  }

  std::unique_ptr<Work> reduce_scatter_sum(torch::Tensor& mine, torch::Tensor& all) override {
    auto rows = all.view({world_size(), -1});
    const auto sum_rows = [](auto& ranks) {
      for (size_t row = 0; row < ranks.size(); ++row) {
        std::vector<torch::Tensor> parts;
        for (const auto& rank : ranks) parts.push_back(rank[static_cast<int64_t>(row)]);
        detail::pairwise_sum(parts);
        if (row > 0) parts[row].copy_(parts[0]);
      }
    };
    return started("reduce_scatter", rows, sum_rows,
                   [this, mine, rows]() mutable { mine.copy_(rows[rank_].view_as(mine)); });
  }

  void broadcast(torch::Tensor& tensor, int root) override {
    run("broadcast", tensor, [root](auto& all) {
      for (auto& one : all) one.copy_(all[static_cast<size_t>(root)]);
    });
  }

  torch::Tensor all_gather(const torch::Tensor& tensor) override {
    auto sizes = tensor.sizes().vec();
    sizes.insert(sizes.begin(), world_size());
    auto all = torch::empty(sizes, tensor.options().requires_grad(false));
    all[rank_].copy_(tensor.detach());
    run("all_gather", all, share_rows);
    return all;
  }

  std::unique_ptr<Work> all_gather_into(torch::Tensor& all, const torch::Tensor& mine) override {
    auto rows = all.view({world_size(), -1});
    auto own = rows[rank_];
    if (own.const_data_ptr() != mine.const_data_ptr()) own.copy_(mine.view_as(own));
    return started("all_gather", rows, share_rows);
  }

  void barrier() override {
    run("barrier", torch::Tensor(), [](auto&) {});
  }

  std::unique_ptr<Work> send(const torch::Tensor& tensor, int peer, int tag, const std::string&) override {
    group_->send(rank_, peer, tag, tensor);
    return std::make_unique<ThreadWork>();
  }

  std::unique_ptr<Work> receive(torch::Tensor& tensor, int peer, int tag, const std::string& what) override {
    return std::make_unique<ThreadWork>([this, tensor, peer, tag, what]() mutable {
      group_->receive(peer, rank_, tag, tensor, concat("waiting for ", what, " from rank ", group_->world_rank(peer)));
    });
  }

  std::unique_ptr<Comm> split(int color) override {
    const auto colors = all_gather(torch::tensor({color}, torch::kInt64)).flatten();
    std::vector<int> world_ranks;
    int own = 0;  // this rank's number in its part
    for (int rank = 0; rank < world_size(); ++rank) {
      if (colors[rank].item<int64_t>() != color) continue;
      if (rank == rank_) own = static_cast<int>(world_ranks.size());
      world_ranks.push_back(group_->world_rank(rank));
    }
    const int64_t number = split_count_++;  // counted by every rank, also by one that is alone in its part
    if (world_ranks.size() == 1) return make_self_comm();
    auto group = group_->part(number, color, world_ranks);
    group->use_this_thread(own);
    return std::make_unique<ThreadComm>(std::move(group), own);
  }

  void at_step(int64_t step) override { group_->at_step(rank_, step); }
  void abort(const std::string& reason) override { group_->abort(rank_, reason); }

 private:
  /// Row r of every rank's tensor becomes that of rank r.
  static void share_rows(ThreadGroup::Tensors& all) {
    for (size_t to = 0; to < all.size(); ++to)
      for (size_t row = 0; row < all.size(); ++row)
        if (row != to) all[to][static_cast<int64_t>(row)].copy_(all[row][static_cast<int64_t>(row)]);
  }

  /// `finish` is called in wait(), when all have been combined.
  std::unique_ptr<Work> started(const std::string& operation, const torch::Tensor& tensor,
                                const ThreadGroup::Combine& combine, std::function<void()> finish = {}) {
    const int64_t begin_ns = now_ns(), number = group_->post(rank_, tensor, combine);
    return std::make_unique<CollectiveWork>(
        CollectiveWork::Parts{group_, rank_, number, begin_ns, operation, std::move(finish), busy_});
  }

  /// No hook calls this.
  void run(const std::string& operation, const torch::Tensor& tensor, const ThreadGroup::Combine& combine) {
    group_->use_this_thread(rank_);
    group_->wait(rank_, group_->post(rank_, tensor, combine), operation);
  }

  std::shared_ptr<ThreadGroup> group_;
  int rank_;
  int64_t split_count_ = 0;
  std::shared_ptr<detail::BusyTime> busy_ = std::make_shared<detail::BusyTime>();
};

}  // namespace

std::vector<std::unique_ptr<Comm>> make_thread_comms(int count, int step_seconds, int meeting_seconds) {
  const auto run = std::make_shared<ThreadRun>(count, step_seconds, meeting_seconds);
  std::vector<int> world_ranks(static_cast<size_t>(count));
  std::iota(world_ranks.begin(), world_ranks.end(), 0);
  const auto group = std::make_shared<ThreadGroup>(run, world_ranks);
  std::vector<std::unique_ptr<Comm>> comms;
  for (int rank = 0; rank < count; ++rank) comms.push_back(std::make_unique<ThreadComm>(group, rank));
  return comms;
}

}  // namespace penstock
