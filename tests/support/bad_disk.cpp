// bad_disk: preloaded into a tool, it makes parts of files unreadable as soon as the tool has mapped them, or kills it
// before a file has its name.
//
//   LD_PRELOAD=libbad_disk.so PENSTOCK_TEST_CUT=shard-00001:shard-00000:8192 loadbench ...
//   LD_PRELOAD=libbad_disk.so PENSTOCK_TEST_UNREADABLE=shard-00001:8192 loadbench ...
//   LD_PRELOAD=libbad_disk.so PENSTOCK_TEST_KILLED=options.json train ...
//
// The first cuts a file that holds "shard-00000" in its path to 8192 bytes when one with "shard-00001" has been mapped
// (that may be the same one). The second makes reading the page at byte 8192 of what is mapped an error, as a disk
// does. The third kills the tool when it has written a file that is to be renamed to one with "options.json" in its
// path.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

void* map(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  static const auto real = reinterpret_cast<decltype(&map)>(dlsym(RTLD_NEXT, "mmap"));
  return real(address, size, protection, flags, fd, offset);
}

/// The next part of `text` up to a colon, which is taken off it.
std::string take_part(std::string& text) {
  const std::string part = text.substr(0, text.find(':'));
  text.erase(0, part.size() + 1);
  return part;
}

/// What follows the first part of the variable, if that part is in `path`; otherwise "".
std::string order_for(const char* variable, const std::string& path) {
  const char* const value = std::getenv(variable);
  std::string text = value == nullptr ? "" : value;
  const std::string name = take_part(text);
  return name.empty() || path.find(name) == std::string::npos ? "" : text;
}

std::string g_paths;  // of all files mapped so far, one in a line

void cut(const std::string& path) {
  std::string order = order_for("PENSTOCK_TEST_CUT", path);
  if (order.empty()) return;
  const size_t at = g_paths.find(take_part(order));
  if (at == std::string::npos) return;
  const size_t begin = g_paths.rfind('\n', at) + 1;
  const std::string victim = g_paths.substr(begin, g_paths.find('\n', at) - begin);
  struct stat status {};
  const off_t length = std::atol(order.c_str());
  if (stat(victim.c_str(), &status) == 0 && status.st_size > length && truncate(victim.c_str(), length) != 0) abort();
}

void break_page(char* address, const std::string& path) {
  const std::string order = order_for("PENSTOCK_TEST_UNREADABLE", path);
  if (order.empty()) return;
  const int nothing = memfd_create("nothing", 0);  // no page of it can be read
  if (map(address + std::atol(order.c_str()), 4096, PROT_READ, MAP_SHARED | MAP_FIXED, nothing, 0) == MAP_FAILED)
    abort();
}

}  // namespace

extern "C" void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  void* const found = map(address, size, protection, flags, fd, offset);
  char path[4096] = {};
  if (fd < 0 || found == MAP_FAILED || std::getenv("LD_PRELOAD") == nullptr) return found;
  if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path - 1) < 0) return found;
  g_paths += path + std::string("\n");
  cut(path);
  break_page(static_cast<char*>(found), path);
  return found;
}

extern "C" int rename(const char* from, const char* to) noexcept {
  static const auto real = reinterpret_cast<decltype(&rename)>(dlsym(RTLD_NEXT, "rename"));
  const char* const name = std::getenv("PENSTOCK_TEST_KILLED");
  if (name != nullptr && std::strstr(to, name) != nullptr) raise(SIGKILL);
  return real(from, to);
}
