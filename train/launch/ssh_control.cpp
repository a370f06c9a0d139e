// Control: the token, and the thread that reads the signals after it.
#include "train/launch/ssh_control.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

constexpr int kTokenTimeoutMs = 10'000;  // the launcher writes it before this process has started

std::string read_token() {
  std::string token(kTokenBytes, '\0');
  size_t done = 0;
  while (done < token.size()) {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const auto count =
        poll(&input, 1, kTokenTimeoutMs) == 1 ? read(STDIN_FILENO, &token[done], token.size() - done) : 0;
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      throw config_error(concat("PENSTOCK_CONTROL is set, and ", done, " bytes came through stdin; expected ",
                                kTokenBytes, " from the train that starts ranks by ssh, or no such variable"));
    done += static_cast<size_t>(count);
  }
  return token;
}

}  // namespace

std::string watch_stdin() {
  std::string token = read_token();
  std::thread([] {
    while (true) {
      unsigned char signal = 0;
      const auto count = read(STDIN_FILENO, &signal, 1);
      if (count < 0 && errno == EINTR) continue;
      kill(getpid(), count == 1 ? signal : SIGKILL);
    }
  }).detach();
  return token;
}

}  // namespace penstock::detail
