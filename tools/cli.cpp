// Command lines by CLI11, with our messages.
#include "tools/cli.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

/// The flags that the innermost subcommand in use understands, `--name` and `-n`.
std::vector<std::string> known_flags(const CLI::App* app) {
  std::vector<std::string> flags;
  for (const auto* option : app->get_options()) {
    for (const auto& name : option->get_lnames()) flags.push_back("--" + name);
    for (const auto& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

CLI::App* innermost(CLI::App* app) {
  for (auto* used : app->get_subcommands()) return innermost(used);
  return app;
}

Error as_config_error(CLI::App& app, const CLI::ParseError& error) {
  CLI::App* used = innermost(&app);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    for (const auto& extra : app.remaining(true)) {
      if (extra.empty() || extra[0] != '-') {
        return config_error(concat("unexpected argument \"", extra, "\"; expected flags only (see --help)"));
      }
      return config_error(unknown_name("flag", extra.substr(0, extra.find('=')), known_flags(used)));
    }
  }
  std::string message = error.what();
  for (char& letter : message)
    if (letter == '\n') letter = ' ';
  return config_error(message + "; see --help");
}

}  // namespace

void parse_command_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    std::exit(app.exit(asked));
  } catch (const CLI::ParseError& error) {
    throw as_config_error(app, error);
  }
}

int run_tool(const std::string& tool, const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& error) {
    std::fflush(stdout);
    std::cerr << tool << ": " << error.what() << '\n';
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::cerr << tool << ": unforeseen: " << error.what() << '\n';
    return 1;
  }
}

}  // namespace penstock
