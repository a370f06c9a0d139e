// Child: pipes, environment and posix_spawn().
#include "train/launch/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

std::vector<std::string> environment_of(const RankCommand& command, const std::string& token) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (!text.starts_with("TORCHELASTIC_")) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : command.variables) variables[name] = value;
  if (command.host.empty()) {
    variables["PENSTOCK_PARENT"] = std::to_string(getpid());
    variables["PENSTOCK_TOKEN"] = token;
  }
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(concat(name, "=", value));
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (auto& string : strings) list.push_back(string.data());
  list.push_back(nullptr);
  return list;
}

/// A pair of connected descriptors that are closed with this object.
struct Ends {
  std::array<int, 2> descriptors{-1, -1};
  Ends() = default;
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  ~Ends() {
    for (const int descriptor : descriptors)
      if (descriptor >= 0) close(descriptor);
  }
  int take(size_t which) { return std::exchange(descriptors[which], -1); }
};

}  // namespace

Child spawn_rank(const RankCommand& command, const std::string& token) {
  auto arguments = command.arguments;
  arguments.insert(arguments.begin(), command.program);
  auto entries = environment_of(command, token);
  Ends errors, controls;
  const bool is_remote = !command.host.empty();
  if (pipe2(errors.descriptors.data(), O_CLOEXEC) != 0 ||
      (is_remote && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, controls.descriptors.data()) != 0))
    throw errno_error("launch: pipe", "expected free descriptors");

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, errors.descriptors[1], STDERR_FILENO);
  if (is_remote) posix_spawn_file_actions_adddup2(&files, controls.descriptors[1], STDIN_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  Child child;
  child.rank = command.rank;
  child.host = command.host;
  const int code = posix_spawnp(&child.pid, command.program.c_str(), &files, &attributes, pointers(arguments).data(),
                                pointers(entries).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (code != 0)
    throw io_error(concat("launch: ", command.program, ": ", std::strerror(code),
                          "; expected a program that can be started as rank ", command.rank));
  child.errors = errors.take(0);
  child.control = controls.take(0);
  if (is_remote) send(child.control, token.data(), token.size(), MSG_NOSIGNAL);  // an ssh that fails says so itself
  return child;
}

}  // namespace penstock::detail
