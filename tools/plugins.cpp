// --plugin: finding its files among the words of a command line.
#include "tools/plugins.h"

#include "core/plugin.h"

namespace penstock {
namespace {

const std::string kFlag = "--plugin";

}  // namespace

void load_plugins(const std::vector<std::string>& words, const std::string& libtorch) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(kFlag + "=")) {
      load_plugin(words[i].substr(kFlag.size() + 1), libtorch);
    } else if (words[i] == kFlag && i + 1 < words.size()) {
      load_plugin(words[++i], libtorch);
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
