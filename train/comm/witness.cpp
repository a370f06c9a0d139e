// Witness: errors of collectives, with the cause that the roll call knows.
#include "train/comm/witness.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <utility>

#include "core/text.h"

namespace penstock::detail {
namespace {

/// The first line of what LibTorch says, without the place in its sources that Gloo puts before it.
std::string cause(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string line = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  line = line.substr(0, line.find('\n'));
  const auto end_of_place = line.find("] ");
  return line.starts_with('[') && end_of_place != std::string::npos ? line.substr(end_of_place + 2) : line;
}

}  // namespace

Witness::Witness(const c10::intrusive_ptr<c10d::Store>& store, const Rendezvous& rendezvous, const std::string& backend)
    : roll_call_(store, rendezvous.rank, rendezvous.world_size,
                 rendezvous.is_hosted ? concat(rendezvous.host, ":", rendezvous.port) : ""),
      backend_(backend),
      where_(concat("rank ", rendezvous.rank, ": ", backend)),
      step_seconds_(rendezvous.step_seconds),
      seconds_(rendezvous.meeting_seconds) {}

Error Witness::failure(const std::string& operation, const std::exception& error, int peer) {
  const std::string said = cause(error);
  const bool has_timed_out = said.find("imed out") != std::string::npos || said.find("imeout") != std::string::npos;
  const std::string blame = roll_call_.explain(has_timed_out ? seconds_ : 0, peer);
  return device_error(
      concat(where_, ": ", operation, ": ",
             blame.empty() ? concat(said, "; another rank has ended or hangs, its message says why") : blame));
}

void Witness::add(const c10::intrusive_ptr<c10d::Backend>& backend) {
  if (seconds_ != step_seconds_) backends_.emplace_back(backend);
}

void Witness::at_step(int64_t step) {
  roll_call_.at_step(step);
  if (seconds_ == step_seconds_) return;
  seconds_ = step_seconds_;
  for (const auto& weak : std::exchange(backends_, {}))
    if (const auto backend = weak.lock()) backend->setTimeout(std::chrono::seconds(step_seconds_));
}

}  // namespace penstock::detail
