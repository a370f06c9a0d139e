// --plugin: finding its files among the words of a command line.
#include "tools/plugins.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <mutex>

#include "core/at_end.h"
#include "core/error.h"
#include "core/plugin.h"
#include "core/text.h"

namespace penstock {
namespace {

const std::string kFlag = "--plugin";

/// The lines about the file that is being loaded; null where none is. Signal handlers can reach only global variables.
struct EndTexts {
  std::string begin, ended;
};
const EndTexts* g_lines = nullptr;

[[noreturn]] void end_with(const std::string& line) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
  _exit(static_cast<int>(ErrorKind::kConfig));
}

/// What start-up code throws comes out of dlopen(), or ends in std::terminate(): that depends on the C library.
std::string threw(const std::string& file, const std::string& what) {
  return concat(kFlag, " ", file, ": its start-up code threw ", what, "; expected code that throws nothing");
}

[[noreturn]] void end_of_terminate() {
  std::string what = "something that is no std::exception";
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
    end_with(g_lines->ended);
  } catch (const std::exception& error) {
    what = in_quotes(error.what());
  } catch (...) {
  }
  end_with(concat(g_lines->begin, "its start-up code threw ", what, "; expected code that throws nothing\n"));
}

/// The code of a plug-in runs while it is loaded. While one of these lives, the end of the process is told as that
/// file's, whether its code throws, exits, aborts or crashes; _exit() alone goes by unnoticed.
class Loading {
 public:
  explicit Loading(const std::string& file) : terminate_before_(std::set_terminate(end_of_terminate)) {
    lines_.begin = concat(program_invocation_short_name, ": ", kFlag, " ", file, ": ");
    lines_.ended = lines_.begin + "ended this process while it was loaded; expected start-up code that returns\n";
    g_lines = &lines_;
    static std::once_flag is_registered;
    std::call_once(is_registered, at_end, [] {
      if (g_lines != nullptr) end_with(g_lines->ended);
    });
    struct sigaction action {};
    action.sa_handler = [](int) { end_with(g_lines->ended); };
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &actions_before_[i]);
  }
  ~Loading() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &actions_before_[i], nullptr);
    std::set_terminate(terminate_before_);
    g_lines = nullptr;
  }
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;

 private:
  static constexpr std::array kSignals{SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  EndTexts lines_;
  std::terminate_handler terminate_before_;
  std::array<struct sigaction, kSignals.size()> actions_before_{};
};

void load(const std::string& file, const std::string& libtorch) {
  const Loading loading(file);
  try {
    load_plugin(file, libtorch);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw config_error(threw(file, in_quotes(error.what())));
  } catch (...) {
    throw config_error(threw(file, "something that is no std::exception"));
  }
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
