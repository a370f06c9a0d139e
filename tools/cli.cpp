// Command lines by CLI11, with our messages.
#include "tools/cli.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>

#include "core/limits.h"
#include "core/number.h"
#include "core/version.h"

namespace penstock {
namespace {

CLI::App* innermost(CLI::App* app) {
  for (auto* used : app->get_subcommands()) return innermost(used);
  return app;
}

std::vector<CLI::App*> subcommands(CLI::App* app) {
  return app->get_subcommands([](CLI::App*) { return true; });
}

std::vector<std::string> command_names(CLI::App* app) {
  std::vector<std::string> names;
  for (const auto* command : subcommands(app)) names.push_back(command->get_name());
  return names;
}

/// The decimal number in `text`, in a form that CLI11 reads as that number. By itself CLI11 reads "" as 0, 010 as 8, -1
/// as 2^64-1, and a number that is too large as the largest one.
std::string checked_number(const std::string& flag, const std::string& type, const std::string& text) {
  const auto fails = [&](const char* expected) {
    return config_error(concat(flag, ": is ", in_quotes(text), "; expected ", expected));
  };
  if (type == "FLOAT") {
    const auto value = parse_number<double>(text);
    if (!value || !std::isfinite(*value)) throw fails("a finite number");
    return text;
  }
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (stop != end || (code != std::errc() && code != std::errc::result_out_of_range)) throw fails("a whole number");
  if (type == "UINT" && text[0] == '-') throw fails("a whole number, 0 or more");
  if (code != std::errc()) throw fails("a whole number with fewer digits");
  return std::to_string(value);
}

bool is_number(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type == "INT" || type == "UINT" || type == "FLOAT";
}

/// Checks the numbers of `app` and its subcommands before CLI11 reads them.
void check_numbers(CLI::App* app) {
  for (auto* option : app->get_options()) {
    const std::string flag = option->get_name(), type = option->get_type_name();
    if (is_number(*option))
      option->transform([=](const std::string& text) { return checked_number(flag, type, text); });
  }
  for (auto* command : subcommands(app)) check_numbers(command);
}

/// CLI11 does not check the empty value of an option that may also stand alone, and reads it as 0.
void refuse_empty_numbers(CLI::App* app) {
  for (auto* option : app->get_options())
    for (const auto& text : option->results())
      if (text.empty() && is_number(*option)) checked_number(option->get_name(), option->get_type_name(), text);
  for (auto* command : subcommands(app)) refuse_empty_numbers(command);
}

Error unexpected_argument(CLI::App* app, const std::string& argument) {
  if (!argument.empty() && argument[0] == '-')
    return config_error(unknown_name("flag", argument.substr(0, argument.find('=')), flag_names(*app)));
  if (const auto commands = command_names(app); !commands.empty())
    return config_error(unknown_name("command", argument, commands));
  return config_error(concat("unexpected argument ", in_quotes(argument), "; expected flags only (see --help)"));
}

/// CLI11 describes an error only in words: `--out is required`, `--jobs: 1 required INT missing`, `Could not convert:
/// --jobs = 9e9`.
Error as_config_error(CLI::App& app, const CLI::ParseError& error) {
  // A word that was not understood is reported first: a misspelt flag is why the right one is missing.
  if (const auto extras = app.remaining(true); !extras.empty())
    return unexpected_argument(innermost(&app), extras.front());
  std::string text = error.what();
  const std::string flag = text.substr(0, text.find_first_of(": "));
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const auto commands = command_names(innermost(&app));
    return config_error(commands.empty() ? concat(flag, ": is missing; expected a value (see --help)")
                                         : concat("no command; expected one of ", join(commands), " (see --help)"));
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return config_error(text.ends_with("missing") ? concat(flag, ": has no value; expected one")
                                                  : concat(flag, ": is given more than once; expected it once"));
  const size_t begin = text.find("--"), equals = text.find(" = ");
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr && begin < equals && equals != std::string::npos) {
    const std::string name = text.substr(begin, equals - begin);
    const bool is_flag = innermost(&app)->get_option(name)->get_items_expected_max() == 0;
    return config_error(
        is_flag
            ? concat(name, ": has the value ", in_quotes(text.substr(equals + 3)), "; expected the flag alone")
            : concat(name, ": is ", in_quotes(text.substr(equals + 3)), "; expected a whole number with fewer digits"));
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return config_error(shortened(text) + "; see --help");
}

/// The words with `--name ''` in place of `--name=`: after `--name=` CLI11 takes the next word as the value, but it
/// reads `--name ''` as an empty value.
std::vector<std::string> with_empty_values(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    const bool is_empty = i > 0 && word.starts_with("--") && word.size() > 3 && word.find('=') == word.size() - 1;
    words.push_back(is_empty ? word.substr(0, word.size() - 1) : word);
    if (is_empty) words.emplace_back();
  }
  return words;
}

}  // namespace

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) flags.push_back("--" + name);
    for (const auto& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

void parse_command_line(CLI::App& app, int argc, char** argv) {
  check_numbers(&app);
  app.set_version_flag("--version", "penstock " PENSTOCK_VERSION, "print the version and exit");
  const auto words = with_empty_values(argc, argv);
  std::vector<const char*> pointers;
  for (const auto& word : words) pointers.push_back(word.c_str());
  try {
    app.parse(static_cast<int>(pointers.size()), pointers.data());
    refuse_empty_numbers(&app);
  } catch (const CLI::Success& asked) {  // --help, --version
    const int exit_code = app.exit(asked);
    std::fflush(stdout);
    std::quick_exit(exit_code);  // core/at_end.h
  } catch (const CLI::ParseError& error) {
    throw as_config_error(app, error);
  }
}

namespace {

/// If descriptor 0, 1 or 2 is closed, the next file that is opened gets its number, and our messages would be written
/// into that file. A file that may not grow shall be an error with a message, not a signal.
void prepare_process() {
  for (int fd = 0; fd <= 2; ++fd)
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", O_RDWR);  // open() takes the lowest free number: this one
  signal(SIGXFSZ, SIG_IGN);
}

}  // namespace

int run_tool(const std::string& tool, const std::function<int()>& body) {
  prepare_process();
  const auto failed = [&](const std::string& message, int exit_code) {
    std::fflush(stdout);
    std::cerr << tool << ": " << error_line(message) << '\n';
    return exit_code;
  };
  try {
    const int exit_code = body();
    errno = 0;
    // A tool whose results did not arrive has failed.
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
    const std::string fact = errno == 0 ? "cannot be written" : std::strerror(errno);
    return failed(concat("stdout: ", fact, "; expected a place for the results"),
                  exit_code == 0 ? static_cast<int>(ErrorKind::kIo) : exit_code);
  } catch (const Error& error) {
    return failed(error.what(), error.exit_code());
  } catch (const std::filesystem::filesystem_error& error) {
    return failed(concat(error.path1().string(), ": ", error.code().message(), "; expected a path that can be used"),
                  static_cast<int>(ErrorKind::kIo));
  } catch (const std::bad_alloc&) {
    const Error error = memory_error("process", "what is to be done",
                                     "fewer --workers or --jobs, a smaller --batch-size, or smaller pictures");
    return failed(error.what(), error.exit_code());
  } catch (const std::exception& error) {
    return failed(concat("unforeseen: ", error.what()), 1);
  } catch (...) {
    return failed("unforeseen: an exception without words", 1);
  }
}

}  // namespace penstock
