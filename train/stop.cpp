// Stopping: a signal handler that stores, and the vote.
#include "train/stop.h"

#include <atomic>
#include <csignal>

#include "core/error.h"

namespace penstock {
namespace {

volatile std::sig_atomic_t g_received = 0;
struct sigaction g_before_interrupt, g_before_terminate;

extern "C" void remember(int signal) {
  if (g_received == 0) g_received = signal;
}

}  // namespace

StopSignals::StopSignals() {
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &g_before_interrupt);
  sigaction(SIGTERM, &action, &g_before_terminate);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &g_before_interrupt, nullptr);
  sigaction(SIGTERM, &g_before_terminate, nullptr);
}

int StopSignals::received() { return g_received; }

StopVote::StopVote(Comm& comm, const torch::Device& device)
    : comm_(comm), device_(device), interval_(device.is_cuda() ? 16 : 1) {}

StopVote::~StopVote() {
  try {
    if (work_) work_->wait();
  } catch (const std::exception&) {
    // The ranks are ending already: whoever failed first says why.
  }
}

int StopVote::after_step(int64_t step) {
  if (step % interval_ != 0) return 0;
  int signal = 0;
  if (work_) {
    work_->wait();
    const auto votes = votes_.cpu();
    if (votes[0].item<int>() > 0) signal = SIGINT;
    if (votes[1].item<int>() > 0) signal = SIGTERM;
  }
  const int mine = StopSignals::received();
  votes_ = torch::tensor({mine == SIGINT ? 1 : 0, mine == SIGTERM ? 1 : 0}, torch::kInt32).to(device_);
  work_ = comm_.all_reduce_sum(votes_);
  return signal;
}

}  // namespace penstock
