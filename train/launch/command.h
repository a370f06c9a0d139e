// Launch commands: what starts each rank, here or over ssh on another machine.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "train/launch/hostfile.h"

namespace penstock {

/// How to start one rank.
struct RankCommand {
  int rank = 0;
  std::string host;  ///< Its machine, if `program` is ssh; "" for this one.
  std::string program;
  std::vector<std::string> arguments;            ///< Without the program's name.
  std::map<std::string, std::string> variables;  ///< In addition to those of this process.
};

/// `count` ranks of this program with these `arguments` on this machine, which meet on a free loopback port.
std::vector<RankCommand> local_ranks(int count, const std::vector<std::string>& arguments);

/// One rank for each slot, started by one ssh each, which runs this program in the present folder with the `arguments`.
/// The variables of torchrun say who they are, and those of this process about libraries, communication and the cache
/// go along. Slots that were chosen become CUDA_VISIBLE_DEVICES. They meet at `host` and `port`; "" and 0: at the first
/// of the hosts, and a port that depends on this process. A host that does not answer is given up after
/// `timeout_seconds`.
std::vector<RankCommand> ssh_ranks(const std::vector<Host>& hosts, const std::vector<std::string>& arguments,
                                   const std::pair<std::string, int>& meeting_place, int timeout_seconds);

/// The word as a POSIX shell reads it: `a(b)` in quotation marks.
std::string shell_quoted(const std::string& word);

/// One line that a shell would take: `RANK=1 ... train --mode ddp`.
std::string to_text(const RankCommand& command);

/// The arguments without `--name VALUE`, `--name=VALUE`, or a `--name` that has no value.
std::vector<std::string> without_flag(std::vector<std::string> arguments, const std::string& name,
                                      bool has_value = true);

}  // namespace penstock
