// Launches: children that are ranks, and one child whose threads are ranks.
#include "train/verify/launch.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/util/Logging.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <torch/cuda.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/mutex.h"
#include "core/text.h"
#include "train/comm/thread_comm.h"
#include "train/nn/row_draws.h"
#include "train/rendezvous/address.h"
#include "train/tensor/cuda_device.h"
#include "train/tensor/random_state.h"
#include "train/tensor/short_message.h"
#include "train/verify/training.h"

namespace penstock {
namespace {

constexpr int kLimitSeconds = 120;      // of a launch
constexpr int kMessageSeconds = 20;     // of a collective or a message
constexpr size_t kMessageBytes = 4000;  // a pipe takes so many in one piece

/// In a child that computes on a GPU. Sums in a fixed order, and convolutions of float32 with all of its 24 bits: by
/// default LibTorch rounds their factors to the 11 bits of TF32, which is 1e-3 of a gradient.
void prepare_gpu() {
  if (!torch::cuda::is_available())
    throw device_error(concat("--device cuda: no CUDA device is visible: ", no_device_text(no_device()),
                              "; expected one, or --device cpu"));
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
  at::globalContext().setAllowTF32CuDNN(false);
}

/// Where the ranks of a launch say what went wrong; the first of them counts.
class Complaints {
 public:
  Complaints() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) throw errno_error("verify: pipe", "expected free descriptors");
  }
  ~Complaints() {
    for (const int end : ends_)
      if (end >= 0) close(end);
  }
  Complaints(const Complaints&) = delete;
  Complaints& operator=(const Complaints&) = delete;

  /// `rank`: -1 if it is nobody's in particular.
  void add(int rank, const std::string& message) const {
    const std::string line = concat(rank, " ", message).substr(0, kMessageBytes) + "\n";
    [[maybe_unused]] const auto written = write(ends_[1], line.data(), line.size());
  }
  /// Returns when all children have ended: rank -1 and "" if none complained.
  std::pair<int, std::string> first() {
    close(std::exchange(ends_[1], -1));
    std::string said;
    std::array<char, 4096> buffer;
    for (ssize_t count; (count = read(ends_[0], buffer.data(), buffer.size())) != 0;) {
      if (count > 0) said.append(buffer.data(), static_cast<size_t>(count));
      if (count < 0 && errno != EINTR) break;
    }
    if (said.empty()) return {-1, ""};
    const size_t space = said.find(' ') + 1;
    return {std::stoi(said), said.substr(space, said.find('\n') - space)};
  }

 private:
  std::array<int, 2> ends_{};
};

/// Runs `body` as one rank, on a thread of its own or in a process of its own.
void serve(Comm& comm, const Complaints& complaints, const std::function<void(Comm&)>& body) {
  {
    // As in run/rank_threads.cpp: the number is that of this thread alone.
    static Mutex mutex;
    const MutexLock lock(mutex);
    at::get_num_threads();
    at::set_num_threads(1);
  }
  try {
    body(comm);
  } catch (const std::exception& failure) {
    complaints.add(comm.rank(), short_message(failure));  // before the others know what they then say
    comm.abort(short_message(failure));
  }
}

void serve_threads(int count, const Complaints& complaints, const std::function<void(Comm&)>& body) {
  auto comms =
      count == 1 ? std::vector<std::unique_ptr<Comm>>() : make_thread_comms(count, kMessageSeconds, kMessageSeconds);
  if (count == 1) comms.push_back(make_self_comm());
  std::vector<std::thread> threads;
  for (const auto& comm : comms) threads.emplace_back([&] { serve(*comm, complaints, body); });
  for (auto& thread : threads) thread.join();
}

void serve_process(int rank, const Launch& launch, int port, const Complaints& complaints,
                   const std::function<void(Comm&)>& body) {
  const auto comm =
      make_comm({.rank = rank,
                 .world_size = launch.ranks,
                 .local_rank = rank,
                 .port = port,
                 .meeting_seconds = kMessageSeconds,
                 .step_seconds = kMessageSeconds},
                device_of(launch), launch.hosting == Hosting::kProcesses && !launch.is_on_gpu ? "auto" : "gloo");
  serve(*comm, complaints, body);
}

/// A child that runs `body`, and ends without the destructors of what it shares with its parent.
pid_t start(const Complaints& complaints, bool is_on_gpu, const std::function<void()>& body) {
  const pid_t parent = getpid(), child = fork();
  if (child < 0) throw errno_error("verify: fork", "expected a process to be possible");
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  alarm(kLimitSeconds);
  FLAGS_caffe2_log_level = static_cast<int>(c10::GLOG_FATAL);  // what c10d logs it also throws
  try {
    if (is_on_gpu) prepare_gpu();
    body();
  } catch (const std::exception& failure) {
    complaints.add(-1, short_message(failure));
  }
  _exit(0);
}

/// The signal that ended a child; 0 if none did.
int signal_of(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

constexpr const char* kDrawsFromGenerator = "generator";
constexpr const char* kDrawsOfItsOwn = "own";

/// One of the words above, or "". Two forwards from one state of the generators: the first says whether it has moved,
/// the second whether that state was all that the outputs depend on.
std::string what_draws(const Launch& launch) {
  at::set_num_threads(1);
  const torch::Device device = device_of(launch);
  const auto model = model_of(launch);
  model->to(device);
  const ModelShape shape;
  const auto images =
      at::randn({launch.batch_size, shape.channels, shape.height, shape.width}, launch.dtype).to(device);
  std::vector<detail::RandomState> states{detail::RandomState(torch::kCPU)};
  if (!device.is_cpu()) states.emplace_back(device);
  for (auto& state : states) state.keep();
  at::NoGradGuard no_grad;
  const RowScope rows(BatchRows{});
  const auto first = model->forward(images);
  const bool has_drawn = !std::all_of(states.begin(), states.end(), [](const auto& state) { return state.is_now(); });
  for (auto& state : states) state.restore();
  constexpr double kRounding = 1e-12;  // a GPU may add in another order
  if (!at::allclose(model->forward(images), first, kRounding, kRounding, /*equal_nan=*/true)) return kDrawsOfItsOwn;
  return has_drawn ? kDrawsFromGenerator : "";
}

/// A port that was free a moment ago.
int free_port() {
  const int socket = detail::listen_at(detail::resolve("127.0.0.1").front(), 0);
  const int port = detail::port_of(socket);
  close(socket);
  return port;
}

}  // namespace

LaunchEnd run_launch(const Launch& launch, const Samples& samples, const std::filesystem::path& to) {
  Progress progress(launch.ranks);
  const auto body = [&](Comm& comm) { train(launch, samples, comm, to, progress.of(comm.rank())); };
  Complaints complaints;
  std::vector<pid_t> children;
  if (launch.ranks == 1 || launch.hosting == Hosting::kThreads) {
    children.push_back(start(complaints, launch.is_on_gpu, [&] { serve_threads(launch.ranks, complaints, body); }));
  } else {
    const int port = free_port();
    for (int rank = 0; rank < launch.ranks; ++rank)
      children.push_back(
          start(complaints, launch.is_on_gpu, [&] { serve_process(rank, launch, port, complaints, body); }));
  }
  LaunchEnd end;
  std::tie(end.rank, end.failure) = complaints.first();
  bool has_crashed = false;
  for (size_t child = 0; child < children.size(); ++child) {
    const int signal = signal_of(children[child]);
    // One that crashes says nothing, and the others that it is gone.
    if (signal == 0 || has_crashed || (signal == SIGALRM && !end.failure.empty())) continue;
    has_crashed = signal != SIGALRM;
    end.rank = children.size() > 1 || launch.ranks == 1 ? static_cast<int>(child) : -1;
    end.failure = signal == SIGALRM ? concat("has not ended after ", kLimitSeconds, " s")
                                    : concat("was ended by signal ", signal, " (", strsignal(signal), ")");
    if (children.size() > 1) end.failure = concat("rank ", child, " ", end.failure);
  }
  // No thread that a signal has ended had begun what comes after the crash.
  int furthest = 0;
  for (int rank = 1; rank < launch.ranks; ++rank)
    if (progress.of(rank).begun_count > progress.of(furthest).begun_count) furthest = rank;
  if (!end.failure.empty()) end.at = progress.of(end.rank < 0 ? furthest : end.rank);
  return end;
}

Randomness randomness_of(const Launch& launch) {
  Complaints complaints;
  const pid_t child = start(complaints, launch.is_on_gpu, [&] { complaints.add(0, what_draws(launch)); });
  const std::string said = complaints.first().second;
  signal_of(child);
  return said == kDrawsOfItsOwn        ? Randomness::kOwn
         : said == kDrawsFromGenerator ? Randomness::kGenerator
                                       : Randomness::kNone;
}

}  // namespace penstock
