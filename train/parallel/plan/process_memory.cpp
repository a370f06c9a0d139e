// Process memory: lines of /proc/self/status.
#include "train/parallel/plan/process_memory.h"

#include <malloc.h>

#include <fstream>

namespace penstock::detail {

double status_bytes(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) return 1024 * std::stod(line.substr(name.size() + 1));
  return 0;
}

double restart_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;
  return status_bytes("VmRSS");
}

}  // namespace penstock::detail
