// Stopping: the vote of the ranks.
#include "train/loop/stop.h"

#include <algorithm>
#include <vector>

namespace penstock {

constexpr int kMostSteps = 16;

StopVote::StopVote(Comm& comm, const torch::Device& device, int local_steps)
    : comm_(comm),
      interval_(device.is_cuda() ? kMostSteps : std::min(local_steps, kMostSteps)),
      votes_(comm.allocate(kStopSignals.size(), torch::dtype(torch::kInt32).device(device))) {}

StopVote::~StopVote() {
  try {
    if (work_) work_->wait();
  } catch (const std::exception&) {
    // The ranks are ending already, and the one that failed first says why.
  }
}

int StopVote::ask() {
  if (++question_count_ % interval_ != 0) return 0;
  int signal = 0;
  if (work_) {
    work_->wait();
    const auto votes = votes_.cpu();
    for (size_t i = 0; i < kStopSignals.size(); ++i)
      if (votes[static_cast<int64_t>(i)].item<int>() > 0) signal = kStopSignals[i];
  }
  std::vector<int> mine;
  for (const int stop : kStopSignals) mine.push_back(StopSignals::received() == stop ? 1 : 0);
  votes_.copy_(torch::tensor(mine, torch::kInt32));
  work_ = comm_.all_reduce_sum(votes_);
  return signal;
}

}  // namespace penstock
