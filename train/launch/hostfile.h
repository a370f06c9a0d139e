// Hostfile: the machines of a run, as --hostfile, --include and --exclude name them, and Slurm's lists of nodes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

constexpr int kMostRanksOfMachine = 1024;

struct Host {
  std::string name;
  std::vector<int> slots;         ///< Numbers of its slots that get a rank each, ascending.
  bool has_chosen_slots = false;  ///< --include or --exclude named some of them, so that they are also its GPUs.

  bool operator==(const Host&) const = default;
};

/// The hosts of a file with lines `worker-0 slots=4`; `#` begins a comment. Throws io_error for a file that cannot be
/// read; config_error that names the line for a host that is there twice, without slots or with anything else in its
/// line, and for a file without hosts.
std::vector<Host> read_hostfile(const std::filesystem::path& path);

/// The hosts and slots that `include` names, or all except those that `exclude` names; "" for one that is not given.
/// Both are as in DeepSpeed: `worker-0@worker-1:0,2` means all slots of worker-0, and slots 0 and 2 of worker-1. The
/// order is that of `hosts`. Throws config_error that names the flag: for both at once, a host or slot that is not in
/// `hosts`, and if nothing is left.
std::vector<Host> chosen_hosts(const std::vector<Host>& hosts, const std::string& include, const std::string& exclude);

/// The nodes of a Slurm list, in its order: "n[01-03,7],gpu" gives n01, n02, n03, n7 and gpu; "r[1-2]n[1-2]" gives
/// r1n1, r1n2, r2n1 and r2n2. Throws config_error for anything else.
std::vector<std::string> expand_node_list(const std::string& list);

}  // namespace penstock
