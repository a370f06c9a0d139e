// Rendezvous: the TCP store in which the ranks of a run meet; rank 0 listens.
#include <chrono>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "core/error.h"
#include "core/limits.h"
#include "core/text.h"
#include "train/comm/c10d_comm.h"
#include "train/comm/loopback.h"

namespace penstock {
namespace {

c10::intrusive_ptr<c10d::Store> meet(const Rendezvous& rendezvous) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(rendezvous.port);
  options.isServer = rendezvous.rank == 0 && !rendezvous.is_hosted;
  options.numWorkers = rendezvous.world_size;
  options.waitWorkers = false;  // whoever needs a rank waits for it: a group's constructor does
  options.timeout = std::chrono::seconds(rendezvous.timeout_seconds);
  // LibTorch's own socket would listen on every interface.
  if (options.isServer && detail::is_loopback(rendezvous.host))
    options.masterListenFd = detail::listen_on_loopback(rendezvous.port);
  try {
    return c10::make_intrusive<c10d::TCPStore>(rendezvous.host, options);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw device_error(concat("rank ", rendezvous.rank, ": rendezvous at ", rendezvous.host, ":", rendezvous.port, ": ",
                              text.substr(0, text.find('\n')), "; expected rank 0 to listen there"));
  }
}

}  // namespace

std::unique_ptr<Comm> make_comm(const Rendezvous& rendezvous, const torch::Device& device, const std::string& backend) {
  if (rendezvous.world_size == 1) return make_self_comm();
  require_threads(concat("rank ", rendezvous.rank), kCommunicatorThreads, "fewer ranks on this machine");
  return make_c10d_comm(meet(rendezvous), rendezvous, device, backend);
}

}  // namespace penstock
