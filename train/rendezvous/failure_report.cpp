// FailureReport: errors of collectives, with the cause that the heartbeat knows.
#include "train/rendezvous/failure_report.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/text.h"
#include "train/rendezvous/awake_clock.h"

namespace penstock::detail {
namespace {

/// The time-out of Gloo's own collectives, which counts pauses. It ends those that nobody waits for any more.
constexpr std::chrono::hours kLongestPause{24};

/// The first line of what LibTorch says, without the place in its sources that Gloo puts before it.
std::string cause(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string line = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  line = line.substr(0, line.find('\n'));
  const auto end_of_place = line.find("] ");
  return line.starts_with('[') && end_of_place != std::string::npos ? line.substr(end_of_place + 2) : line;
}

}  // namespace

FailureReport::FailureReport(const c10::intrusive_ptr<c10d::Store>& store, const Rendezvous& rendezvous,
                             const std::string& backend)
    : heartbeat_(store, rendezvous.rank, rendezvous.world_size,
                 rendezvous.is_hosted ? concat(rendezvous.host, ":", rendezvous.port) : "", rendezvous.token),
      backend_(backend),
      where_(concat("rank ", rendezvous.rank, ": ", backend)),
      rank_(rendezvous.rank),
      step_seconds_(rendezvous.step_seconds),
      seconds_(rendezvous.meeting_seconds) {}

Error FailureReport::failure(const std::string& operation, const std::exception& error, int peer,
                             const std::string& advice) {
  const std::string said = cause(error);
  const bool has_timed_out = said.find("imed out") != std::string::npos || said.find("imeout") != std::string::npos;
  const std::string blame = heartbeat_.explain(has_timed_out ? seconds_ : 0, peer);
  return device_error(concat(where_, ": ", operation, ": ", blame.empty() ? concat(said, "; ", advice) : blame));
}

c10::intrusive_ptr<c10d::Backend> FailureReport::connect(std::function<c10::intrusive_ptr<c10d::Backend>()> connect,
                                                         const std::string& addresses) {
  using std::chrono::steady_clock, std::chrono::milliseconds;
  const auto task = std::make_shared<std::packaged_task<c10::intrusive_ptr<c10d::Backend>()>>(std::move(connect));
  auto backend = task->get_future();
  const auto deadline = steady_clock::now() + std::chrono::seconds(seconds_);
  try {
    std::thread([task] { (*task)(); }).detach();  // throws where the system gives no thread
    while (backend.wait_for(milliseconds(20)) != std::future_status::ready) {
      if (heartbeat_.has_lost_a_rank()) throw std::runtime_error("a rank has ended");
      if (steady_clock::now() >= deadline) throw std::runtime_error(concat("timed out after ", seconds_, " s"));
    }
    return backend.get();
  } catch (const std::exception& error) {
    const Error failed =
        failure("connect", error, -1,
                concat(addresses, "; expected addresses at which ranks reach each other (--interface NAME: a rank ",
                       "announces the address of that network interface)"));
    heartbeat_.end(concat("rank ", rank_, " has ended: ", failed.what()));
    throw failed;
  }
}

void FailureReport::add(const c10::intrusive_ptr<c10d::Backend>& backend) {
  backends_.emplace_back(backend);
  if (backend_ == "gloo") backend->setTimeout(kLongestPause);
}

void FailureReport::wait(c10d::Work& work) {
  if (backend_ != "gloo") return void(work.wait(kNoTimeout));
  const int64_t deadline_ns = awake_ns() + int64_t{seconds_} * 1'000'000'000;
  for (;;) {
    try {
      work.wait(std::chrono::seconds(1));
      return;
    } catch (const std::exception&) {
      if (work.isCompleted()) return void(work.wait(kNoTimeout));
      if (awake_ns() < deadline_ns) continue;
    }
    for (const auto& weak : backends_)
      if (const auto backend = weak.lock()) static_cast<void>(*new auto(backend));  // its destructor would wait as well
    throw std::runtime_error("timed out");
  }
}

void FailureReport::at_step(int64_t step) {
  heartbeat_.at_step(step);
  if (seconds_ == step_seconds_) return;
  seconds_ = step_seconds_;
  if (backend_ == "gloo") return;
  for (const auto& weak : backends_)
    if (const auto backend = weak.lock()) backend->setTimeout(std::chrono::seconds(step_seconds_));
}

}  // namespace penstock::detail
