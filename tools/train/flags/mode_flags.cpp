// Mode flags: found by the keys of all modes.
#include "tools/train/flags/mode_flags.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "tools/train/flags/earlier_flags.h"
#include "train/run/program.h"

namespace penstock {
namespace {

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

void refuse_mode_flags(const std::vector<std::string>& words, const std::vector<std::string>& known) {
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t end = words[i].find('=');
    const std::string flag = words[i].substr(0, end);
    if (!flag.starts_with("--") || contains(known, flag)) continue;
    const std::string key = flag.substr(2);
    const auto modes = modes_with(key);
    if (modes.empty()) continue;
    std::string value = "VALUE";
    if (end != std::string::npos)
      value = words[i].substr(end + 1);
    else if (i + 1 < words.size() && !words[i + 1].starts_with("-"))
      value = words[i + 1];
    const std::string typed = typed_value(words, "--mode"), name = typed.substr(0, typed.find('('));
    throw config_error(concat("unknown flag ", in_quotes(flag), "; it is a key of --mode, as in --mode '",
                              contains(modes, name) ? name : modes.front(), "(", key, "=", shortened(value), ")'"));
  }
}

}  // namespace penstock
