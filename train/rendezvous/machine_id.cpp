// Machine id: of the kernel's start and of the process's namespaces.
#include "train/rendezvous/machine_id.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <system_error>

namespace penstock::detail {

int64_t machine_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  std::error_code error;
  for (const char* space : {"/proc/self/ns/pid", "/proc/self/ns/net"})
    id += std::filesystem::read_symlink(space, error).string();
  return static_cast<int64_t>(std::hash<std::string>()(id));
}

}  // namespace penstock::detail
