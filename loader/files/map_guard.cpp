// MapGuard: a list of maps that a signal handler can read, and the handler.
#include "loader/files/map_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>

#include "core/mutex.h"

namespace penstock::detail {

std::atomic<uint64_t> map_fault_count{0};

/// An entry is made once and never freed, so that the handler may read it at any moment. It serves one map after the
/// other. A fault in a map happens while that map is alive, and two maps that are alive do not overlap. An entry that
/// changes while the handler reads it is therefore never the one that the handler looks for. The handler notices such a
/// change by `begin`, which is 0 in between and is read twice.
struct MapGuard::Entry {
  std::atomic<uintptr_t> begin{0};  // 0: the entry serves no map
  std::atomic<size_t> byte_count{0};
  std::atomic<std::atomic<uint64_t>*> pages{nullptr};  // one bit for each page that could not be read
  std::atomic<uint64_t> fault_count{0};
  Entry* next = nullptr;       // constant once the entry is in the list
  Entry* next_free = nullptr;  // used while the entry serves no map
};

/// The handler and what it needs, which is constant or lock-free.
struct MapHandler {
  using Entry = MapGuard::Entry;
  static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

  static inline std::atomic<Entry*> entries{nullptr};
  static inline size_t page_bytes = 0;
  static inline std::atomic<bool> is_installed{false};
  static constexpr int kMostLevels = 8;
  static inline Mutex mutex;  // locked to make or destroy a guard or to put back the handler; never by the handler
  static inline int level_count PENSTOCK_GUARDED_BY(mutex) = 0;  // levels that have been in use
  static inline Entry* first_free PENSTOCK_GUARDED_BY(mutex) = nullptr;
  // What the handler of each level has replaced. Written with `mutex`; the handlers read it without.
  static inline std::array<struct sigaction, kMostLevels> previous{};

  using Action = void (*)(int, siginfo_t*, void*);

  /// The handlers, one function per level. The handler of level k passes on to previous[k], which may call the handler
  /// of a lower level, that it has replaced itself.
  template <size_t... kLevels>
  static constexpr std::array<Action, kMostLevels> make_actions(std::index_sequence<kLevels...>) {
    return {on_bus_error<kLevels>...};
  }
  static const std::array<Action, kMostLevels>& actions() {
    static constexpr auto kActions = make_actions(std::make_index_sequence<kMostLevels>());
    return kActions;
  }

  static bool is_own(const struct sigaction& action) {
    return (action.sa_flags & SA_SIGINFO) != 0 &&
           std::find(actions().begin(), actions().end(), action.sa_sigaction) != actions().end();
  }

  /// Installs the handler on top of `current`. A program that installs a handler again (faulthandler.disable() and
  /// enable()) gets the level that it had.
  static void install_on(const struct sigaction& current) PENSTOCK_REQUIRES(mutex) {
    const auto same = std::find_if(previous.begin(), previous.begin() + level_count, [&](const auto& one) {
      return one.sa_flags == current.sa_flags && one.sa_sigaction == current.sa_sigaction;
    });
    const auto level = static_cast<int>(same - previous.begin());
    if (level == kMostLevels) return;  // eight different handlers: the program wants its own
    // The handler of a level that has been in use may be running on another thread and reads `previous` of it.
    if (level == level_count) previous[static_cast<size_t>(level_count++)] = current;
    struct sigaction action {};
    action.sa_sigaction = actions()[static_cast<size_t>(level)];
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, nullptr);
  }

  static void install() {
    page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    keep();
    is_installed = true;
  }

  static void keep() {
    struct sigaction current {};
    sigaction(SIGBUS, nullptr, &current);
    if (is_own(current)) return;
    const MutexLock lock(mutex);
    sigaction(SIGBUS, nullptr, &current);
    if (!is_own(current)) install_on(current);
  }

  template <size_t kLevel>
  static void on_bus_error(int signal, siginfo_t* info, void* context) {
    const int error = errno;
    const bool is_page = info->si_code == BUS_ADRERR || info->si_code == BUS_MCEERR_AR;
    if (!is_page || !replace_page(reinterpret_cast<uintptr_t>(info->si_addr)))
      pass_on(previous[kLevel], signal, info, context);
    errno = error;
  }

  /// Marks the page of `address` and puts zeros in its place. Returns false when `address` is in no guarded map. The
  /// mark comes first, so that whoever reads the zeros also sees the mark.
  static bool replace_page(uintptr_t address) {
    for (Entry* entry = entries; entry != nullptr; entry = entry->next) {
      const uintptr_t begin = entry->begin;
      const size_t offset = address - begin;
      if (begin == 0 || offset >= entry->byte_count || entry->begin != begin) continue;
      const size_t page = offset / page_bytes;
      entry->pages.load()[page / 64] |= uint64_t{1} << page % 64;
      // Every fault counts, not every map: a second thread that faults in a map must find the count above 0 when it
      // goes on, also before the first one has got so far.
      ++entry->fault_count;
      ++map_fault_count;
      const uintptr_t place = begin + page * page_bytes;
      // This is the system call itself, because ThreadSanitizer takes mmap() for a write that races with other threads'
      // reads.
      return syscall(SYS_mmap, place, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
             static_cast<long>(place);
    }
    return false;
  }

  static void pass_on(const struct sigaction& replaced, int signal, siginfo_t* info, void* context) {
    if ((replaced.sa_flags & SA_SIGINFO) != 0) return replaced.sa_sigaction(signal, info, context);
    const bool was_sent = info->si_code <= 0;  // by kill(): otherwise the instruction runs again and faults again
    if (replaced.sa_handler == SIG_IGN && was_sent) return;
    if (replaced.sa_handler != SIG_DFL && replaced.sa_handler != SIG_IGN) return replaced.sa_handler(signal);
    ::signal(signal, SIG_DFL);
    if (was_sent) raise(signal);
  }
};

void keep_map_handler() {
  if (MapHandler::is_installed) MapHandler::keep();
}

MapGuard::MapGuard(std::span<const uint8_t> map) {
  static std::once_flag installed;
  std::call_once(installed, MapHandler::install);
  const size_t page_count = map.size() / MapHandler::page_bytes + 1;
  auto pages = std::make_unique<std::atomic<uint64_t>[]>(page_count / 64 + 1);
  const MutexLock lock(MapHandler::mutex);
  const bool is_new = MapHandler::first_free == nullptr;
  entry_ = is_new ? new Entry : std::exchange(MapHandler::first_free, MapHandler::first_free->next_free);
  entry_->fault_count = 0;
  entry_->byte_count = map.size();
  entry_->pages = pages.release();
  entry_->begin = reinterpret_cast<uintptr_t>(map.data());
  if (!is_new) return;
  entry_->next = MapHandler::entries;
  MapHandler::entries = entry_;
}

MapGuard::~MapGuard() {
  const MutexLock lock(MapHandler::mutex);
  entry_->begin = 0;
  map_fault_count -= entry_->fault_count;
  delete[] entry_->pages.load();
  entry_->next_free = std::exchange(MapHandler::first_free, entry_);
}

std::optional<size_t> MapGuard::first_fault(std::span<const uint8_t> used) const {
  if (used.empty() || entry_->fault_count == 0) return {};
  const size_t begin = reinterpret_cast<uintptr_t>(used.data()) - entry_->begin, end = begin + used.size();
  for (size_t page = begin / MapHandler::page_bytes; page * MapHandler::page_bytes < end; ++page) {
    const bool is_faulted = (entry_->pages.load()[page / 64] >> page % 64 & 1) != 0;
    if (is_faulted) return std::max(begin, page * MapHandler::page_bytes);
  }
  return {};
}

}  // namespace penstock::detail
