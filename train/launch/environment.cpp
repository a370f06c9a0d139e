// launch: reads which rank this process is from the environment variables of torchrun, Slurm, Open MPI or
// run_ranks().
#include "train/launch/environment.h"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <tuple>

#include "core/error.h"
#include "core/number.h"
#include "core/text.h"
#include "train/launch/hostfile.h"

namespace penstock {
namespace {

constexpr size_t kTokenBytes = 32;       // the length of a random_token()
constexpr int kTokenTimeoutMs = 10'000;  // the launcher writes it before this process has started

std::string read_token() {
  std::string token(kTokenBytes, '\0');
  size_t done = 0;
  while (done < token.size()) {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const auto count =
        poll(&input, 1, kTokenTimeoutMs) == 1 ? read(STDIN_FILENO, &token[done], token.size() - done) : 0;
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      throw config_error(concat("PENSTOCK_CONTROL is set, and ", done, " bytes came through stdin; expected ",
                                kTokenBytes, " from the train that starts ranks by ssh, or no such variable"));
    done += static_cast<size_t>(count);
  }
  return token;
}

/// Reads the token that comes first, and starts a thread that reads the rest of stdin. Each byte is the number of a
/// signal, which this process then gets; the end of stdin means that the launcher or the connection to it is gone, and
/// kills this process. ssh passes no signals on, and a program that it has started outlives it. Returns the token:
/// other users of a machine can read command lines, but not this. Throws config_error if none comes.
std::string watch_stdin() {
  std::string token = read_token();
  std::thread([] {
    while (true) {
      unsigned char signal = 0;
      const auto count = read(STDIN_FILENO, &signal, 1);
      if (count < 0 && errno == EINTR) continue;
      kill(getpid(), count == 1 ? signal : SIGKILL);
    }
  }).detach();
  return token;
}

constexpr int kFirstDerivedPort = 15000, kDerivedPortCount = 15000;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool has(const char* name) { return !variable(name).empty(); }

int number(const char* name, const std::string& text, int low, int high) {
  const auto value = parse_number<int>(text);
  if (!value || *value < low || *value > high)
    throw config_error(concat(name, " is ", in_quotes(text), "; expected a number from ", low, " to ", high));
  return *value;
}

int number(const char* name, int low, int high) { return number(name, variable(name), low, high); }
/// Port 0 would let the system choose one, which no other rank would know.
int port_number(const char* name, const std::string& text) { return number(name, text, 1, 65'535); }

int number_or(const char* name, int fallback, int low, int high) {
  return has(name) ? number(name, low, high) : fallback;
}

constexpr int kMaxRanks = 1 << 20;

/// Rank, world size and rank on this machine, from the variables with the names that a launcher uses.
Rendezvous ranks_from(const char* rank, const char* world_size, const char* local_rank) {
  for (const char* name : {rank, world_size})
    if (!has(name))
      throw config_error(concat(name, " is not set; expected it together with ", name == rank ? world_size : rank));
  Rendezvous rendezvous;
  rendezvous.world_size = number(world_size, 1, kMaxRanks);
  rendezvous.rank = number(rank, 0, kMaxRanks);
  if (rendezvous.rank >= rendezvous.world_size)
    throw config_error(concat(rank, " is ", rendezvous.rank, " and ", world_size, " is ", rendezvous.world_size,
                              "; expected a rank below the world size"));
  rendezvous.local_rank = number_or(local_rank, 0, 0, kMaxRanks);
  if (rendezvous.local_rank > rendezvous.rank)
    throw config_error(concat(local_rank, " is ", rendezvous.local_rank, " and ", rank, " is ", rendezvous.rank,
                              "; expected a rank on this machine that is at most the rank"));
  return rendezvous;
}

int derived_port(const std::string& job) {
  const auto number = parse_number<uint64_t>(job);
  uint64_t id = number.value_or(0);
  if (!number)
    for (const unsigned char c : job) id = (id ^ c) * 1099511628211u;  // FNV-1a, for a job whose id is not a number
  return kFirstDerivedPort + static_cast<int>(id % kDerivedPortCount);
}

/// Finds out where the ranks meet if the launcher gives no address.
void meet(Rendezvous& rendezvous, const std::string& dist_url, const std::string& host, const std::string& job) {
  if (!dist_url.empty() && dist_url != "env://") return meet_at(rendezvous, dist_url);
  rendezvous.host = has("MASTER_ADDR") ? variable("MASTER_ADDR") : host;
  if (rendezvous.world_size == 1) return;
  const bool has_address = !rendezvous.host.empty() && (!job.empty() || has("MASTER_PORT"));
  if (!has_address && dist_url == "env://")
    throw config_error(concat("--dist-url env://: ", rendezvous.host.empty() ? "MASTER_ADDR" : "MASTER_PORT",
                              " is not set; expected MASTER_ADDR and MASTER_PORT"));
  if (!has_address)
    throw config_error(
        "--dist-url is not given and the launcher gives no address; expected --dist-url tcp://host:port, or "
        "MASTER_ADDR and MASTER_PORT");
  rendezvous.port = has("MASTER_PORT") ? port_number("MASTER_PORT", variable("MASTER_PORT")) : derived_port(job);
}

/// Ends this process with its parent, which may have ended before the kernel was asked to watch it.
void follow_parent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int parent = number("PENSTOCK_PARENT", 1, 1 << 30);
  if (getppid() != parent)
    throw config_error(concat("PENSTOCK_PARENT is ", parent, ", and this process was started by ", getppid(),
                              "; expected no such variable, train sets it for the ranks that it starts"));
}

LaunchedRank from_torchrun() {
  LaunchedRank launched{ranks_from("RANK", "WORLD_SIZE", "LOCAL_RANK"), "torchrun"};
  auto& rendezvous = launched.rendezvous;
  const bool is_on_one_machine = number_or("LOCAL_WORLD_SIZE", 0, 1, kMaxRanks) == rendezvous.world_size;
  rendezvous.is_hosted = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (has("TORCHELASTIC_RESTART_COUNT")) rendezvous.attempt = variable("TORCHELASTIC_RESTART_COUNT");
  if (rendezvous.world_size > 1) {
    if (!has("MASTER_PORT"))
      throw config_error("MASTER_PORT is not set; expected it together with RANK and WORLD_SIZE");
    rendezvous.port = port_number("MASTER_PORT", variable("MASTER_PORT"));
    if (!is_on_one_machine) {
      if (!has("MASTER_ADDR"))
        throw config_error("MASTER_ADDR is not set; expected it together with RANK and WORLD_SIZE");
      rendezvous.host = variable("MASTER_ADDR");
    }
  }
  if (has("PENSTOCK_CONTROL")) {
    launched.launcher = "penstock";
    rendezvous.token = watch_stdin();
  } else if (has("PENSTOCK_PARENT")) {
    launched.launcher = "penstock";
    follow_parent();
    rendezvous.token = variable("PENSTOCK_TOKEN");
  }
  return launched;
}

bool is_slurm_batch_script() { return variable("ENVIRONMENT") == "BATCH" && !has("SLURM_STEP_ID"); }

LaunchedRank from_slurm(const std::string& dist_url) {
  const char* count = has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  LaunchedRank launched{ranks_from("SLURM_PROCID", count, "SLURM_LOCALID"), "slurm"};
  const char* nodes = has("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
  std::string host = "127.0.0.1";
  if (number_or(nodes, 1, 1, kMaxRanks) > 1) {
    host =
        expand_node_list(variable(has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST")).front();
    if (host.empty()) host = variable("SLURM_LAUNCH_NODE_IPADDR");
  }
  meet(launched.rendezvous, dist_url, host, variable("SLURM_JOB_ID"));
  return launched;
}

LaunchedRank from_openmpi(const std::string& dist_url) {
  LaunchedRank launched{ranks_from("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
                        "openmpi"};
  const bool is_on_one_machine =
      number_or("OMPI_COMM_WORLD_LOCAL_SIZE", 0, 1, kMaxRanks) == launched.rendezvous.world_size;
  const char* job = has("PMIX_NAMESPACE") ? "PMIX_NAMESPACE" : "OMPI_MCA_ess_base_jobid";
  meet(launched.rendezvous, dist_url, is_on_one_machine ? "127.0.0.1" : "", variable(job));
  return launched;
}

}  // namespace

std::pair<std::string, int> parse_dist_url(const std::string& dist_url) {
  const std::string prefix = "tcp://";
  const auto colon = dist_url.rfind(':');
  if (!dist_url.starts_with(prefix) || colon <= prefix.size())
    throw config_error(
        concat("--dist-url is ", in_quotes(dist_url), "; expected tcp://host:port, file:///path or env://"));
  std::string host = dist_url.substr(prefix.size(), colon - prefix.size());
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {host, port_number("--dist-url's port", dist_url.substr(colon + 1))};
}

void meet_at(Rendezvous& rendezvous, const std::string& dist_url) {
  const std::string file = "file://";
  if (dist_url == "env://") return meet(rendezvous, dist_url, "", "");
  if (dist_url.starts_with(file + "/")) {
    rendezvous.file = dist_url.substr(file.size());
    rendezvous.host.clear();  // it may be another machine
  } else {
    std::tie(rendezvous.host, rendezvous.port) = parse_dist_url(dist_url);
  }
}

std::optional<LaunchedRank> rank_from_environment(const std::string& dist_url) {
  if (has("RANK") || has("WORLD_SIZE")) return from_torchrun();
  if (has("SLURM_PROCID") && !is_slurm_batch_script()) return from_slurm(dist_url);
  if (has("OMPI_COMM_WORLD_RANK")) return from_openmpi(dist_url);
  return std::nullopt;
}

}  // namespace penstock
