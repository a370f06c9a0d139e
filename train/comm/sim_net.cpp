// sim_net: a Comm around another, whose works sleep until a message would have arrived.
#include "train/comm/sim_net.h"

#include <sys/prctl.h>

#include <chrono>
#include <thread>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "train/comm/busy_time.h"

namespace penstock {
namespace {

/// The tag of the message that tells when the one with `tag` is due.
int due_tag(int tag) {
  if (tag >= kTagLimit) throw bug_error(concat("a message with tag ", tag, "; expected less than ", kTagLimit));
  return tag + kTagLimit;
}

/// One rank's link, and when its collectives were under way.
struct Uplink {
  explicit Uplink(const NetworkModel& net) : link(net) {}
  detail::Link link;
  detail::BusyTime busy;
};

void sleep_until_ns(int64_t ns) {
  if (now_ns() >= ns) return;
  prctl(PR_SET_TIMERSLACK, 1UL);  // Linux otherwise wakes a thread up to 50 us late
  std::this_thread::sleep_until(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns)));
}

/// Ends when the inner work has ended and the time has come.
class SimWork final : public Comm::Work {
 public:
  struct Parts {
    std::unique_ptr<Comm::Work> inner;    // null: it has ended
    std::unique_ptr<Comm::Work> told;     // which sends or fills `due`
    torch::Tensor due;                    // i64: when the shares of ranks arrive; the latest counts
    std::optional<int64_t> sent_ns = {};  // counts in place of `due`
    int64_t begin_ns = 0;
    std::shared_ptr<Uplink> uplink = nullptr;  // null: the time under way is not measured
  };
  explicit SimWork(Parts parts) : parts_(std::move(parts)) {}

  void wait() override {
    if (is_done_) return;
    if (parts_.inner) parts_.inner->wait();
    parts_.told->wait();
    const int64_t end_ns = due_ns();
    sleep_until_ns(end_ns);
    is_done_ = true;
    if (parts_.uplink) under_way_ms_ = ms_of(parts_.uplink->busy.add(parts_.begin_ns, end_ns));
  }

  std::optional<double> under_way_ms() override {
    const auto inner = parts_.inner ? parts_.inner->under_way_ms() : 0;
    return is_done_ && inner ? std::optional(std::max(*inner, under_way_ms_)) : std::nullopt;
  }

 private:
  int64_t due_ns() const { return parts_.sent_ns ? *parts_.sent_ns : parts_.due.max().item<int64_t>(); }

  Parts parts_;
  bool is_done_ = false;
  double under_way_ms_ = 0;
};

class SimNetComm final : public Comm {
 public:
  SimNetComm(std::unique_ptr<Comm> inner, std::shared_ptr<Uplink> uplink)
      : inner_(std::move(inner)), uplink_(std::move(uplink)) {}

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  std::string backend() const override { return inner_->backend(); }
  torch::Tensor allocate(int64_t count, const torch::TensorOptions& options) override {
    return inner_->allocate(count, options);
  }
  bool adds_pairwise(const torch::Tensor& tensor) const override { return inner_->adds_pairwise(tensor); }

  std::unique_ptr<Work> all_reduce_sum(torch::Tensor& tensor) override {
    const int64_t begin_ns = now_ns();
    return collective(inner_->all_reduce_sum(tensor), begin_ns,
                      detail::all_reduce_share(bytes_of(tensor), world_size()));
  }
  std::unique_ptr<Work> reduce_scatter_sum(torch::Tensor& mine, torch::Tensor& all) override {
    const int64_t begin_ns = now_ns();
    return collective(inner_->reduce_scatter_sum(mine, all), begin_ns,
                      detail::gather_share(bytes_of(all), world_size()));
  }
  void broadcast(torch::Tensor& tensor, int root) override {
    const int64_t begin_ns = now_ns();
    inner_->broadcast(tensor, root);
    collective(nullptr, begin_ns, detail::broadcast_share(bytes_of(tensor), world_size()))->wait();
  }
  torch::Tensor all_gather(const torch::Tensor& tensor) override {
    const int64_t begin_ns = now_ns();
    auto all = inner_->all_gather(tensor);
    collective(nullptr, begin_ns, detail::gather_share(bytes_of(all), world_size()))->wait();
    return all;
  }
  std::unique_ptr<Work> all_gather_into(torch::Tensor& all, const torch::Tensor& mine) override {
    const int64_t begin_ns = now_ns();
    return collective(inner_->all_gather_into(all, mine), begin_ns, detail::gather_share(bytes_of(all), world_size()));
  }
  void barrier() override {
    const int64_t begin_ns = now_ns();
    inner_->barrier();
    collective(nullptr, begin_ns, detail::all_reduce_share(0, world_size()))->wait();
  }

  std::unique_ptr<Work> send(const torch::Tensor& tensor, int peer, int tag, const std::string& what) override {
    const auto times = uplink_->link.send(now_ns(), {bytes_of(tensor), 1});
    auto inner = inner_->send(tensor, peer, tag, what);
    auto due = torch::full({1}, times.due_ns, torch::kInt64);
    auto told = inner_->send(due, peer, due_tag(tag), what);
    return std::make_unique<SimWork>(SimWork::Parts{
        .inner = std::move(inner), .told = std::move(told), .due = std::move(due), .sent_ns = times.sent_ns});
  }
  std::unique_ptr<Work> receive(torch::Tensor& tensor, int peer, int tag, const std::string& what) override {
    auto due = torch::zeros({1}, torch::kInt64);
    auto inner = inner_->receive(tensor, peer, tag, what);
    auto told = inner_->receive(due, peer, due_tag(tag), what);
    return std::make_unique<SimWork>(
        SimWork::Parts{.inner = std::move(inner), .told = std::move(told), .due = std::move(due)});
  }

  std::unique_ptr<Comm> split(int color) override {
    auto part = inner_->split(color);
    if (part->world_size() == 1) return part;
    return std::make_unique<SimNetComm>(std::move(part), uplink_);
  }

  void at_step(int64_t step) override { inner_->at_step(step); }
  void abort(const std::string& reason) override { inner_->abort(reason); }

 private:
  static int64_t bytes_of(const torch::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

  /// A collective that began at `begin_ns`, over the shares of all ranks. `inner` is null if it has ended.
  std::unique_ptr<Work> collective(std::unique_ptr<Work> inner, int64_t begin_ns, const detail::RingShare& share) {
    auto due = torch::zeros({world_size()}, torch::kInt64);
    due[rank()] = uplink_->link.send(begin_ns, share).due_ns;
    auto told = inner_->all_reduce_sum(due);
    return std::make_unique<SimWork>(SimWork::Parts{.inner = std::move(inner),
                                                    .told = std::move(told),
                                                    .due = std::move(due),
                                                    .begin_ns = begin_ns,
                                                    .uplink = uplink_});
  }

  std::unique_ptr<Comm> inner_;
  std::shared_ptr<Uplink> uplink_;  // of this rank, for all its groups and works
};

}  // namespace

std::unique_ptr<Comm> make_sim_net(std::unique_ptr<Comm> inner, const std::optional<NetworkModel>& net) {
  if (!net || inner->world_size() == 1) return inner;
  return std::make_unique<SimNetComm>(std::move(inner), std::make_shared<Uplink>(*net));
}

}  // namespace penstock
