// launch SCENARIO [FOLDER]: starts two ranks with run_ranks(), which then behave or misbehave as the scenario says.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "core/clock.h"
#include "core/error.h"
#include "tools/cli.h"
#include "train/launch/environment.h"
#include "train/launch/spawn.h"

namespace {

volatile std::sig_atomic_t stop_count = 0;

[[noreturn]] void hang() {
  while (true) pause();
}

/// Waits until the parent has reaped the other rank, whose process id is in `file`.
void wait_for_the_end_of(const std::string& file) {
  pid_t pid = 0;
  while (!(std::ifstream(file) >> pid) || kill(pid, 0) == 0 || errno != ESRCH) poll(nullptr, 0, 1);
}

void wait_for_signal() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_count = stop_count + 1; };
  sigset_t stops, before;
  sigemptyset(&stops);
  sigaddset(&stops, SIGINT);
  sigaddset(&stops, SIGTERM);
  sigaddset(&stops, SIGHUP);
  sigprocmask(SIG_BLOCK, &stops, &before);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGHUP, &action, nullptr);
  std::cout << "ready" << std::endl;
  while (stop_count == 0) sigsuspend(&before);
  std::cout << "stopped " << stop_count << std::endl;
}

int run_rank(int rank, const std::string& scenario, const std::string& folder) {
  if (scenario == "work") {
    std::cerr << "a line of rank " << rank << "\n";
    return 0;
  }
  if (scenario == "stop" || scenario == "full") {
    wait_for_signal();
    if (scenario == "full" && rank == 1) throw penstock::io_error("checkpoint: no space left; free some");
    return 130;
  }
  if (scenario == "orphan" || scenario == "deaf" || scenario == "busy") {
    if (scenario != "orphan")
      for (const int stop : {SIGINT, SIGTERM}) std::signal(stop, SIG_IGN);
    std::cout << "ready" << std::endl;
    while (scenario == "busy") penstock::burn_cpu(1'000'000);
    hang();
  }
  if (scenario == "echo" || scenario == "echoes") {
    if (rank == 0) {
      std::ofstream(folder + "/pid.tmp") << getpid() << "\n";
      std::rename((folder + "/pid.tmp").c_str(), (folder + "/pid").c_str());
      throw penstock::device_error("rank 0: gloo: all_reduce: Connection closed by peer; another rank has ended");
    }
    wait_for_the_end_of(folder + "/pid");
    if (scenario == "echoes") throw penstock::device_error("rank 1: gloo: all_reduce: rank 0 has left");
    throw penstock::corrupt_error("shard 3: sample 35: crc32c is wrong; pack it again");
  }
  if (scenario == "stubborn" && rank == 0) std::signal(SIGTERM, SIG_IGN);
  if (rank == 0) {
    std::ofstream(folder + "/ready") << "\n";
    hang();
  }
  while (!std::ifstream(folder + "/ready")) poll(nullptr, 0, 1);
  if (scenario == "killed") raise(SIGKILL);
  if (scenario == "silent") return 3;
  throw penstock::io_error("disk: no space left; free some");
}

}  // namespace

int main(int argc, char** argv) {
  using namespace penstock;
  return run_tool("launch", [&] {
    if (const auto launched = rank_from_environment("")) {
      const auto& rendezvous = launched->rendezvous;
      std::cout << "rank " << rendezvous.rank << " of " << rendezvous.world_size << " by " << launched->launcher
                << " at " << rendezvous.host << std::endl;
      return run_rank(rendezvous.rank, argv[1], argc > 2 ? argv[2] : "");
    }
    const RanksEnd end = run_ranks(local_ranks(2, {argv + 1, argv + argc}));
    if (!end.last_line.empty()) std::cerr << end.last_line << std::endl;
    return end.code;
  });
}
