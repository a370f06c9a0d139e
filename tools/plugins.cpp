// --plugin: finding its files among the words of a command line.
#include "tools/plugins.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>

#include "core/error.h"
#include "core/plugin.h"
#include "core/text.h"

namespace penstock {
namespace {

const std::string kFlag = "--plugin";

std::string* ended_line = nullptr;  // of the file that is being loaded; signal handlers can reach only global variables

[[noreturn]] void end_with_line() {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, ended_line->data(), ended_line->size());
  _exit(static_cast<int>(ErrorKind::kConfig));
}

/// The code of a plug-in runs while it is loaded. While one of these lives, the end of the process is told as that
/// file's, whether it exits, aborts or crashes; _exit() alone goes by unnoticed.
class Loading {
 public:
  explicit Loading(const std::string& file)
      : line_(concat(program_invocation_short_name, ": ", kFlag, " ", file,
                     ": ended this process while it was loaded; expected start-up code that returns\n")),
        terminate_before_(std::set_terminate(end_with_line)) {
    ended_line = &line_;
    static const int registered = std::atexit([] {
      if (ended_line != nullptr) end_with_line();
    });
    static_cast<void>(registered);
    struct sigaction action {};
    action.sa_handler = [](int) { end_with_line(); };
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &actions_before_[i]);
  }
  ~Loading() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &actions_before_[i], nullptr);
    std::set_terminate(terminate_before_);
    ended_line = nullptr;
  }
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;

 private:
  static constexpr std::array kSignals{SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  std::string line_;
  std::terminate_handler terminate_before_;
  std::array<struct sigaction, kSignals.size()> actions_before_{};
};

void load(const std::string& file, const std::string& libtorch) {
  const Loading loading(file);
  load_plugin(file, libtorch);
}

}  // namespace

void load_plugins(const std::vector<std::string>& words, const std::string& libtorch) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(kFlag + "=")) {
      load(words[i].substr(kFlag.size() + 1), libtorch);
    } else if (words[i] == kFlag && i + 1 < words.size()) {
      load(words[++i], libtorch);
    }
  }
}

CLI::Option* add_plugin_option(CLI::App& app, std::vector<std::string>& files) {
  return app
      .add_option(
          kFlag, files,
          "shared library with plug-ins of your own, compiled against the installed headers; the flag may be given "
          "several times")
      ->type_name("FILE")
      ->take_all()
      ->allow_extra_args(false);
}

}  // namespace penstock
