// Stop signals: a handler that stores the signal.
#include "train/launch/stop_signals.h"

#include <atomic>

#include "core/clock.h"
#include "core/mutex.h"

namespace penstock {
namespace {

volatile std::sig_atomic_t g_received = 0;
std::atomic<int64_t> g_received_ns = 0;
Mutex g_mutex;  // not of the handler
std::array<struct sigaction, kStopSignals.size()> g_before PENSTOCK_GUARDED_BY(g_mutex);
int g_count PENSTOCK_GUARDED_BY(g_mutex) = 0;

extern "C" void remember(int signal) {
  if (g_received == 0) {
    g_received = signal;
    g_received_ns = now_ns();
  } else if (signal == SIGINT && ms_since(g_received_ns) >= kSecondSignalMs) {
    std::signal(SIGINT, SIG_DFL);
    raise(SIGINT);
  }
}

}  // namespace

bool is_heeded(int signal) {
  struct sigaction now {};
  return signal != SIGHUP || sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_IGN;
}

StopSignals::StopSignals() {
  const MutexLock lock(g_mutex);
  if (g_count++ > 0) return;
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    sigaction(kStopSignals[i], nullptr, &g_before[i]);
    if (is_heeded(kStopSignals[i])) sigaction(kStopSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  const MutexLock lock(g_mutex);
  if (--g_count > 0) return;
  for (size_t i = 0; i < kStopSignals.size(); ++i) sigaction(kStopSignals[i], &g_before[i], nullptr);
  g_received = 0;  // one that comes later is another one
}

int StopSignals::received() { return g_received; }

}  // namespace penstock
