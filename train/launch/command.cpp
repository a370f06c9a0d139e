// Launch commands: environment variables, quoting, and the command line of ssh.
#include "train/launch/command.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "core/text.h"
#include "train/launch/recovery.h"
#include "train/rendezvous/address.h"

namespace penstock {
namespace {

constexpr int kFirstPort = 15000, kPortCount = 15000;  // below the ports that Linux gives out itself

std::string own_program() {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  // The program may have been replaced or removed since it started.
  return std::filesystem::exists(program) ? program : "/proc/self/exe";
}

std::map<std::string, std::string> variables_of(int rank, int world_size, int local_rank, int local_world_size,
                                                const std::pair<std::string, int>& meeting_place) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(world_size)},
          {"LOCAL_RANK", std::to_string(local_rank)},
          {"LOCAL_WORLD_SIZE", std::to_string(local_world_size)},
          {"MASTER_ADDR", meeting_place.first},
          {"MASTER_PORT", std::to_string(meeting_place.second)}};
}

std::string quoted_variables(const std::map<std::string, std::string>& variables) {
  std::string text;
  for (const auto& [name, value] : variables) text += concat(name, "=", shell_quoted(value), " ");
  return text;
}

std::string quoted_command(const std::string& program, const std::vector<std::string>& arguments) {
  std::string text = shell_quoted(program);
  for (const auto& argument : arguments) text += " " + shell_quoted(argument);
  return text;
}

/// A shell that ssh starts has read other files than the shell of the user, so these would be lost.
std::map<std::string, std::string> variables_that_go_along() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const bool goes_along = name == "LD_LIBRARY_PATH" || name == "XDG_CACHE_HOME" || name.starts_with("OMP_") ||
                            name == kFailureVariable || name.starts_with("NCCL_") || name.starts_with("GLOO_") ||
                            name.starts_with("TORCH_");
    if (goes_along) variables[name] = text.substr(name.size() + 1);
  }
  return variables;
}

std::string joined(const std::vector<int>& numbers) {
  std::vector<std::string> texts;
  for (const int number : numbers) texts.push_back(std::to_string(number));
  return join(texts, ",");
}

}  // namespace

std::string shell_quoted(const std::string& word) {
  const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("-_=+./:,@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (is_plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<RankCommand> local_ranks(int count, const std::vector<std::string>& arguments) {
  // Rank 0 will listen at this port in a moment. If another process takes it before, rank 0 reports that.
  const int socket = detail::listen_at(detail::resolve("127.0.0.1").front(), 0);
  const int port = detail::port_of(socket);
  close(socket);
  std::vector<RankCommand> commands;
  for (int rank = 0; rank < count; ++rank)
    commands.push_back({.rank = rank,
                        .host = "",
                        .program = own_program(),
                        .arguments = arguments,
                        .variables = variables_of(rank, count, rank, count, {"127.0.0.1", port})});
  return commands;
}

std::vector<RankCommand> ssh_ranks(const std::vector<Host>& hosts, const std::vector<std::string>& arguments,
                                   const std::pair<std::string, int>& meeting_place, int timeout_seconds) {
  constexpr int kLongestConnect = 30;
  static int attempt = 0;  // another port each time, because one that was just used may not be free again
  auto place = meeting_place;
  if (place.first.empty())
    place = {hosts.front().name, kFirstPort + (static_cast<int>(getpid()) + 7 * attempt++) % kPortCount};
  int world_size = 0;
  for (const auto& host : hosts) world_size += static_cast<int>(host.slots.size());
  const std::string folder = std::filesystem::current_path().string();
  std::vector<RankCommand> commands;
  for (const auto& host : hosts) {
    const auto local_size = static_cast<int>(host.slots.size());
    for (int local_rank = 0; local_rank < local_size; ++local_rank) {
      const auto rank = static_cast<int>(commands.size());
      auto variables = variables_of(rank, world_size, local_rank, local_size, place);
      variables["PENSTOCK_CONTROL"] = "stdin";
      if (host.has_chosen_slots) variables["CUDA_VISIBLE_DEVICES"] = joined(host.slots);
      variables.merge(variables_that_go_along());
      const std::string remote = concat("cd ", shell_quoted(folder), " && exec env ", quoted_variables(variables),
                                        quoted_command(own_program(), arguments));
      commands.push_back({.rank = rank,
                          .host = host.name,
                          .program = "ssh",
                          .arguments = {"-T", "-o", "BatchMode=yes", "-o",
                                        concat("ConnectTimeout=", std::min(timeout_seconds, kLongestConnect)), "-o",
                                        "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3", host.name, remote},
                          .variables = {}});
    }
  }
  return commands;
}

std::string to_text(const RankCommand& command) {
  return quoted_variables(command.variables) + quoted_command(command.program, command.arguments);
}

std::vector<std::string> without_flag(std::vector<std::string> arguments, const std::string& name, bool has_value) {
  for (size_t i = 0; i < arguments.size();) {
    const bool is_flag = arguments[i] == name, is_joined = arguments[i].starts_with(name + "=");
    const auto from = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    if (is_flag && has_value && i + 1 < arguments.size())
      arguments.erase(from, from + 2);
    else if (is_flag || is_joined)
      arguments.erase(from);
    else
      ++i;
  }
  return arguments;
}

}  // namespace penstock
