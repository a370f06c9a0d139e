// c10d: the collectives of a c10d backend as a Comm, its failures as device errors.
#include "train/comm/c10d_comm.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#ifdef PENSTOCK_HAS_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/limits.h"
#include "core/text.h"
#include "train/comm/busy_time.h"
#include "train/comm/nccl.h"
#include "train/comm/shared_comm.h"
#include "train/rendezvous/address.h"
#include "train/rendezvous/announced.h"
#include "train/rendezvous/failure_report.h"
#include "train/rendezvous/store_rendezvous.h"

namespace penstock {
namespace {

detail::NcclMaker* nccl_maker = nullptr;

using detail::BusyTime;  // of one group; its collectives end on Gloo's threads
using detail::FailureReport;

using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

class C10dWork : public Comm::Work {
 public:
  /// `works` make one collective together. `staged` is the host copy that `tensor` gets its result from; undefined when
  /// the backend works on the tensor itself.
  C10dWork(std::string operation, Works works, torch::Tensor tensor, torch::Tensor staged,
           std::shared_ptr<FailureReport> failure_report, int peer = -1)
      : operation_(std::move(operation)),
        works_(std::move(works)),
        tensor_(std::move(tensor)),
        staged_(std::move(staged)),
        failure_report_(std::move(failure_report)),
        peer_(peer) {}
  void wait() override {
    for (const auto& work : works_)
      failure_report_->guarded(
          operation_, [&] { wait_for(*work); }, peer_);
    if (staged_.defined()) tensor_.copy_(std::exchange(staged_, {}));
    tensor_.reset();
    if (!keeps_works()) works_.clear();  // they hold their tensors
  }
  std::optional<double> under_way_ms() override {
    if (timing_->pending_count.load() > 0) return std::nullopt;
    return ms_of(timing_->ns.load());
  }

  /// Measures from now on.
  void time_by(const std::shared_ptr<BusyTime>& busy) {
    timing_->pending_count.store(works_.size());
    for (const auto& work : works_)
      work->getFuture()->addCallback([busy, begin_ns = now_ns(), timing = timing_](c10::ivalue::Future&) {
        timing->ns.fetch_add(busy->add(begin_ns, now_ns()));
        timing->pending_count.fetch_sub(1);
      });
  }

 protected:
  c10d::Work& work() { return *works_.front(); }

 private:
  struct Timing {
    std::atomic<int64_t> ns = 0;
    std::atomic<size_t> pending_count = 0;  // works that have not ended
  };
  /// Whether the works are still needed after wait().
  virtual bool keeps_works() const { return false; }
  /// Messages of Gloo otherwise keep the time-out that the group was connected with: setTimeout() of LibTorch 2.11
  /// changes that of collectives alone. They end with their time-out, so that it cannot leave out a pause.
  void wait_for(c10d::Work& work) const {
    if (peer_ >= 0 && failure_report_->backend() == "gloo")
      work.wait(std::chrono::seconds(failure_report_->seconds()));
    else
      failure_report_->wait(work);
  }

  std::string operation_;
  Works works_;  // none: it was waited for
  torch::Tensor tensor_, staged_;
  std::shared_ptr<FailureReport> failure_report_;
  int peer_;
  std::shared_ptr<Timing> timing_ = std::make_shared<Timing>();
};

class NcclWork final : public C10dWork {
 public:
  using C10dWork::C10dWork;
  std::optional<double> under_way_ms() override {
    if (!work().isCompleted()) return std::nullopt;
    return work().getDuration();
  }

 private:
  bool keeps_works() const override { return true; }
};

/// What a group of ranks needs to connect.
struct Group {
  c10::intrusive_ptr<c10d::Store> store;  // of these ranks alone
  Rendezvous rendezvous;                  // rank and world size are the group's
  std::string backend;                    // gloo or nccl
  torch::Device device;
  std::vector<int> world_ranks;  // one entry per rank of the group: its rank in the run

  /// Where this rank announces itself.
  std::string address() const {
    const auto& all = rendezvous.addresses;
    return all.empty() ? "127.0.0.1" : all[static_cast<size_t>(world_ranks[static_cast<size_t>(rendezvous.rank)])];
  }
};

c10::intrusive_ptr<c10d::Backend> make_gloo(const Group& group, std::chrono::seconds timeout) {
  const Rendezvous& rendezvous = group.rendezvous;
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  if (!rendezvous.interface.empty())
    options->devices = {c10d::ProcessGroupGloo::createDeviceForInterface(rendezvous.interface)};
  else if (std::getenv("GLOO_SOCKET_IFNAME") != nullptr && !detail::is_loopback(group.address()))
    options = c10d::ProcessGroupGloo::Options::create_default(timeout);  // it follows that variable
  else
    options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname(group.address())};
  return c10::make_intrusive<c10d::ProcessGroupGloo>(group.store, rendezvous.rank, rendezvous.world_size, options);
}

c10::intrusive_ptr<c10d::Backend> make_nccl(const Group& group, std::chrono::seconds timeout) {
  if (nccl_maker == nullptr)
    throw config_error(
        "--dist-backend is nccl, which this build has not; expected gloo, or a build with a CUDA LibTorch");
  const Rendezvous& rendezvous = group.rendezvous;
  const std::string interface =
      rendezvous.interface.empty() && detail::is_loopback(group.address()) ? "lo" : rendezvous.interface;
  if (!interface.empty()) setenv("NCCL_SOCKET_IFNAME", interface.c_str(), /*overwrite=*/!rendezvous.interface.empty());
#ifdef PENSTOCK_HAS_CUDA
  c10::cuda::set_device(group.device.index());
#endif
  setenv("TORCH_NCCL_ENABLE_TIMING", "1", /*overwrite=*/1);  // two events a collective, for Work::under_way_ms()
  return nccl_maker(group.store, rendezvous.rank, rendezvous.world_size, timeout);
}

/// Gloo connects ranks here, and waits 5 times the time-out for one that does not come. NCCL connects with the first
/// collective.
c10::intrusive_ptr<c10d::Backend> connect(const Group& group, FailureReport& failure_report) {
  const std::chrono::seconds timeout(failure_report.seconds());
  auto backend = group.backend == "gloo"
                     ? failure_report.connect([group, timeout] { return make_gloo(group, timeout); },
                                              detail::to_text(group.rendezvous.addresses))
                     : failure_report.guarded("connect", [&] { return make_nccl(group, timeout); });
  failure_report.add(backend);
  return backend;
}

class C10dComm final : public Comm {
  template <class Body>
  auto collective(const std::string& operation, const Body& body) {
    return failure_report_->collective(operation, is_part_, body);
  }

 public:
  C10dComm(Group group, std::shared_ptr<FailureReport> failure_report, bool is_part = false)
      : group_(std::move(group)),
        failure_report_(std::move(failure_report)),
        backend_(connect(group_, *failure_report_)),
        is_staged_(group_.device.is_cuda() && group_.backend == "gloo"),
        is_part_(is_part) {}

  int rank() const override { return backend_->getRank(); }
  int world_size() const override { return backend_->getSize(); }
  std::string backend() const override { return group_.backend; }

  std::unique_ptr<Work> all_reduce_sum(torch::Tensor& tensor) override {
    auto staged = is_staged_ ? tensor.cpu() : torch::Tensor();
    std::vector<torch::Tensor> tensors{is_staged_ ? staged : tensor};
    auto work = collective("all_reduce", [&] { return backend_->allreduce(tensors); });
    return timed("all_reduce", {std::move(work)}, tensor, std::move(staged));
  }

  std::unique_ptr<Work> reduce_scatter_sum(torch::Tensor& mine, torch::Tensor& all) override {
    if (group_.backend == "nccl") {
      auto work = collective("reduce_scatter", [&] { return backend_->_reduce_scatter_base(mine, all); });
      return timed("reduce_scatter", {std::move(work)}, mine, torch::Tensor());
    }
    // For Gloo, c10d makes this of an all-reduce too, but of a copy of `all`, and it does not tell when it has ended.
    std::vector<torch::Tensor> whole{is_staged_ ? all.cpu() : all};
    auto work = collective("reduce_scatter", [&] { return backend_->allreduce(whole); });
    return timed("reduce_scatter", {std::move(work)}, mine, whole[0].view({world_size(), -1})[rank()].view_as(mine));
  }

  void broadcast(torch::Tensor& tensor, int root) override {
    std::vector<torch::Tensor> tensors{is_staged_ ? tensor.cpu() : tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    collective("broadcast", [&] { return failure_report_->wait(*backend_->broadcast(tensors, options)); });
    if (is_staged_) tensor.copy_(tensors[0]);
  }

  torch::Tensor all_gather(const torch::Tensor& tensor) override {
    auto mine = (is_staged_ ? tensor.detach().cpu() : tensor.detach()).contiguous();
    auto all = torch::empty({world_size() * mine.numel()}, mine.options());
    auto flat = mine.view({-1});
    collective("all_gather", [&] { return failure_report_->wait(*backend_->_allgather_base(all, flat)); });
    auto sizes = mine.sizes().vec();
    sizes.insert(sizes.begin(), world_size());
    return all.view(sizes).to(tensor.device());
  }

  std::unique_ptr<Work> all_gather_into(torch::Tensor& all, const torch::Tensor& mine) override {
    if (group_.backend == "nccl") {
      auto own = mine;
      auto work = collective("all_gather", [&] { return backend_->_allgather_base(all, own); });
      return timed("all_gather", {std::move(work)}, all, torch::Tensor());
    }
    auto staged = is_staged_ ? torch::empty_like(all, all.options().device(torch::kCPU)) : torch::Tensor();
    const auto rows = (is_staged_ ? staged : all).view({world_size(), -1});
    const auto own = rows[rank()];
    if (own.const_data_ptr() != mine.const_data_ptr()) own.copy_(mine.view_as(own));
    // For Gloo, c10d gathers into a copy of `all`. Broadcasts need none: 47 MB between 2 ranks take 30 ms and not 120.
    Works works;
    collective("all_gather", [&] {
      for (int root = 0; root < world_size(); ++root) {
        std::vector<torch::Tensor> row{rows[root]};
        c10d::BroadcastOptions options;
        options.rootRank = root;
        works.push_back(backend_->broadcast(row, options));
      }
    });
    return timed("all_gather", std::move(works), all, std::move(staged));
  }

  std::unique_ptr<Work> send(const torch::Tensor& tensor, int peer, int tag, const std::string& what) override {
    std::vector<torch::Tensor> tensors{is_staged_ ? tensor.cpu() : tensor};
    const int world_rank = group_.world_ranks[static_cast<size_t>(peer)];
    const std::string operation = concat("sending ", what, " to rank ", world_rank);
    auto work = failure_report_->guarded(
        operation, [&] { return backend_->send(tensors, peer, tag); }, world_rank);
    return std::make_unique<C10dWork>(operation, Works{std::move(work)}, tensors[0], torch::Tensor(), failure_report_,
                                      world_rank);
  }

  std::unique_ptr<Work> receive(torch::Tensor& tensor, int peer, int tag, const std::string& what) override {
    auto staged = is_staged_ ? torch::empty_like(tensor, tensor.options().device(torch::kCPU)) : torch::Tensor();
    std::vector<torch::Tensor> tensors{is_staged_ ? staged : tensor};
    const int world_rank = group_.world_ranks[static_cast<size_t>(peer)];
    const std::string operation = concat("waiting for ", what, " from rank ", world_rank);
    auto work = failure_report_->guarded(
        operation, [&] { return backend_->recv(tensors, peer, tag); }, world_rank);
    return std::make_unique<C10dWork>(operation, Works{std::move(work)}, tensor, std::move(staged), failure_report_,
                                      world_rank);
  }

  std::unique_ptr<Comm> split(int color) override {
    const auto colors = all_gather(torch::tensor({color}, torch::kInt64).to(group_.device)).cpu().flatten();
    Group part = group_;
    part.store = c10::make_intrusive<c10d::PrefixStore>(concat("split ", split_count_++, " ", color), group_.store);
    part.rendezvous.rank = static_cast<int>(colors.narrow(0, 0, rank()).eq(color).sum().item<int64_t>());
    part.world_ranks.clear();
    for (int rank = 0; rank < world_size(); ++rank)
      if (colors[rank].item<int64_t>() == color)
        part.world_ranks.push_back(group_.world_ranks[static_cast<size_t>(rank)]);
    part.rendezvous.world_size = static_cast<int>(part.world_ranks.size());
    std::unique_ptr<Comm> made;
    if (part.rendezvous.world_size == 1)
      made = make_self_comm();
    else
      made = std::make_unique<C10dComm>(std::move(part), failure_report_, /*is_part=*/true);
    barrier();  // a rank that ended its part before another had connected would leave that one waiting
    return made;
  }

  void barrier() override {
    c10d::BarrierOptions options;
    if (group_.backend == "nccl") options.device_ids = {group_.device.index()};
    collective("barrier", [&] { return failure_report_->wait(*backend_->barrier(options)); });
  }

  void at_step(int64_t step) override { failure_report_->at_step(step); }
  void abort(const std::string& reason) override {
    failure_report_->end(concat("rank ", rank(), " has ended: ", reason));
  }

 private:
  /// A collective that was started, and that tells how long it was under way.
  std::unique_ptr<Work> timed(const std::string& operation, Works works, const torch::Tensor& tensor,
                              torch::Tensor staged) {
    if (group_.backend == "nccl")
      return std::make_unique<NcclWork>(operation, std::move(works), tensor, std::move(staged), failure_report_);
    auto gloo = std::make_unique<C10dWork>(operation, std::move(works), tensor, std::move(staged), failure_report_);
    gloo->time_by(busy_);
    return gloo;
  }

  Group group_;
  std::shared_ptr<FailureReport> failure_report_;  // of the whole run: a part's failures name its ranks
  c10::intrusive_ptr<c10d::Backend> backend_;
  bool is_staged_, is_part_;
  int split_count_ = 0;
  std::shared_ptr<BusyTime> busy_ = std::make_shared<BusyTime>();
};

}  // namespace

void detail::set_nccl_maker(NcclMaker* maker) { nccl_maker = maker; }

std::unique_ptr<Comm> make_c10d_comm(c10::intrusive_ptr<c10d::Store> store, const Rendezvous& rendezvous,
                                     const torch::Device& device, const std::string& backend) {
  const std::string name = backend == "auto" ? (device.is_cuda() ? "nccl" : "gloo") : backend;
  if (name != "gloo" && name != "nccl")
    throw config_error(unknown_name("--dist-backend", backend, {"auto", "gloo", "nccl"}));
  if (name == "nccl" && !device.is_cuda())
    throw config_error("--dist-backend is nccl on the CPU; expected gloo or auto, or --device cuda");
  const auto failure_report = std::make_shared<FailureReport>(store, rendezvous, name);
  std::vector<int> world_ranks(static_cast<size_t>(rendezvous.world_size));
  std::iota(world_ranks.begin(), world_ranks.end(), 0);
  auto comm = std::make_unique<C10dComm>(Group{std::move(store), rendezvous, name, device, std::move(world_ranks)},
                                         failure_report);
  if (backend != "auto" || !device.is_cpu()) return comm;
  return detail::make_shared_comm(std::move(comm), failure_report);
}

std::unique_ptr<Comm> make_comm(const Rendezvous& rendezvous, const torch::Device& device, const std::string& backend,
                                const Meeting& meeting) {
  if (rendezvous.world_size == 1) return make_self_comm();
  require_threads(concat("rank ", rendezvous.rank), kCommunicatorThreads, "fewer --threads or --workers");
  auto met = detail::meet(rendezvous, meeting);
  Rendezvous own = rendezvous;
  own.addresses = std::move(met.addresses);
  return make_c10d_comm(std::move(met.store), own, device, backend);
}

}  // namespace penstock
