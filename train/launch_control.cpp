// Control: the thread that reads stdin.
#include "train/launch_control.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

namespace penstock::detail {

void obey_stdin() {
  std::thread([] {
    while (true) {
      unsigned char signal = 0;
      const auto count = read(STDIN_FILENO, &signal, 1);
      if (count < 0 && errno == EINTR) continue;
      kill(getpid(), count == 1 ? signal : SIGKILL);
    }
  }).detach();
}

}  // namespace penstock::detail
