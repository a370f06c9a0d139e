// Hostfile: parses lines, choices of slots, and ranges of numbered nodes.
#include "train/launch/hostfile.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <optional>
#include <sstream>

#include "core/error.h"
#include "core/number.h"
#include "core/regular_file.h"
#include "core/text.h"

namespace penstock {
namespace {

constexpr int kMaxNodes = 1 << 20;
constexpr size_t kMostFileBytes = 1 << 20;  // 30,000 hosts and more

std::optional<int> number_in(const std::string& text) {
  const auto number = parse_number<int>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

/// The whole file. Throws io_error and corrupt_error.
std::string read_whole(const std::string& where, const std::filesystem::path& path) {
  try {
    return read_text(path, kMostFileBytes);
  } catch (const Error& error) {  // which names the path alone
    throw Error(error.kind(), concat(where.substr(0, where.size() - path.string().size()), error.what(),
                                     ", with lines such as worker-0 slots=4"));
  }
}

/// A name goes into the command line of ssh, where one that begins with a dash would be an option. `@` and `:` separate
/// hosts and slots in --include.
bool is_host_name(const std::string& name) {
  return !name.starts_with('-') && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  });
}

Host parse_line(const std::string& where, const std::string& line) {
  std::istringstream words(line);
  std::string name, slots, more;
  words >> name >> slots >> more;
  constexpr std::string_view kKey = "slots=";
  if (!slots.starts_with(kKey) || !more.empty() || !is_host_name(name))
    throw config_error(concat(where, " is ", in_quotes(line), "; expected HOST slots=N, such as worker-0 slots=4"));
  const auto count = number_in(slots.substr(kKey.size()));
  if (!count || *count < 1 || *count > kMostRanksOfMachine)
    throw config_error(
        concat(where, ": ", name, " has ", in_quotes(slots), "; expected slots=1 to slots=", kMostRanksOfMachine));
  Host host{.name = name, .slots = std::vector<int>(static_cast<size_t>(*count))};
  std::iota(host.slots.begin(), host.slots.end(), 0);
  return host;
}

/// What one part of --include or --exclude names: "worker-1:0,2".
struct Choice {
  std::string host;
  std::vector<int> slots;  // none: all of them
};

Choice parse_choice(const std::string& flag, const std::string& text, const std::vector<Host>& hosts) {
  const auto colon = text.find(':');
  Choice choice{.host = text.substr(0, colon), .slots = {}};
  std::vector<std::string> known;
  for (const auto& host : hosts) known.push_back(host.name);
  const auto found = std::find(known.begin(), known.end(), choice.host);
  if (found == known.end()) throw config_error(concat(flag, ": ", unknown_name("host", choice.host, known)));
  if (colon == std::string::npos) return choice;
  const auto& slots = hosts[static_cast<size_t>(found - known.begin())].slots;
  for (const auto& word : split(text.substr(colon + 1), ',')) {
    const auto slot = number_in(word);
    if (!slot || std::find(slots.begin(), slots.end(), *slot) == slots.end())
      throw config_error(concat(flag, " is ", in_quotes(text), ": ", choice.host, " has no slot ", in_quotes(word),
                                "; expected 0 to ", slots.size() - 1));
    choice.slots.push_back(*slot);
  }
  return choice;
}

std::vector<Choice> parse_choices(const std::string& flag, const std::string& text, const std::vector<Host>& hosts) {
  std::vector<Choice> choices;
  for (const auto& part : split(text, '@')) {
    Choice choice = parse_choice(flag, part, hosts);
    for (const auto& other : choices)
      if (other.host == choice.host)
        throw config_error(
            concat(flag, " is ", in_quotes(text), ": ", choice.host, " is there twice; expected it once"));
    choices.push_back(std::move(choice));
  }
  return choices;
}

Error too_many_nodes(const std::string& list) {
  return config_error(concat("node list ", in_quotes(list), ": more than ", kMaxNodes, " nodes; expected fewer"));
}

/// The texts in the brackets: "01-03,7" gives 01, 02, 03 and 7.
std::vector<std::string> numbers_of(const std::string& list, const std::string& ranges) {
  std::vector<std::string> numbers;
  for (const auto& range : split(ranges, ',')) {
    const auto dash = range.find('-');
    const std::string low_text = range.substr(0, dash);
    const auto low = number_in(low_text);
    const auto high = dash == std::string::npos ? low : number_in(range.substr(dash + 1));
    if (!low || !high || *high < *low)
      throw config_error(
          concat("node list ", in_quotes(list), ": ", in_quotes(range), "; expected numbers such as 01-03"));
    if (numbers.size() + static_cast<size_t>(*high - *low) >= kMaxNodes) throw too_many_nodes(list);
    for (int64_t number = *low; number <= *high; ++number) {
      std::string digits = std::to_string(number);
      if (digits.size() < low_text.size()) digits.insert(0, low_text.size() - digits.size(), '0');
      numbers.push_back(std::move(digits));
    }
  }
  return numbers;
}

/// The parts of a list between the commas that are not in brackets.
std::vector<std::string> outer_parts(const std::string& list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : list) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

/// All names that one part stands for, whose first pair of brackets is expanded here and the others by recursion.
void expand(const std::string& list, const std::string& before, const std::string& part,
            std::vector<std::string>& names) {
  const auto open = part.find('['), close = part.find(']');
  if (open == std::string::npos && close == std::string::npos) return names.push_back(before + part);
  if (open == std::string::npos || close == std::string::npos || close < open)
    throw config_error(concat("node list ", in_quotes(list), ": a bracket without its other one; expected both"));
  for (const auto& number : numbers_of(list, part.substr(open + 1, close - open - 1))) {
    expand(list, concat(before, part.substr(0, open), number), part.substr(close + 1), names);
    if (names.size() > kMaxNodes) throw too_many_nodes(list);
  }
}

}  // namespace

std::vector<Host> read_hostfile(const std::filesystem::path& path) {
  const std::string where = concat("--hostfile ", path.string());
  std::istringstream file(read_whole(where, path));
  std::vector<Host> hosts;
  std::vector<int> lines;  // one entry per host: the number of its line
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    line.erase(std::min(line.find('#'), line.size()));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line.empty()) continue;
    Host host = parse_line(concat(where, ": line ", number), line);
    for (size_t i = 0; i < hosts.size(); ++i)
      if (hosts[i].name == host.name)
        throw config_error(concat(where, ": line ", number, ": ", host.name, " is in line ", lines[i],
                                  " already; expected every host once"));
    hosts.push_back(std::move(host));
    lines.push_back(number);
  }
  if (hosts.empty()) throw config_error(concat(where, ": 0 hosts; expected lines such as worker-0 slots=4"));
  return hosts;
}

std::vector<Host> chosen_hosts(const std::vector<Host>& hosts, const std::string& include, const std::string& exclude) {
  if (!include.empty() && !exclude.empty())
    throw config_error(concat("--include is ", in_quotes(include), " with --exclude ", in_quotes(exclude),
                              "; expected one of the two"));
  if (include.empty() && exclude.empty()) return hosts;
  const bool includes = !include.empty();
  const auto choices =
      includes ? parse_choices("--include", include, hosts) : parse_choices("--exclude", exclude, hosts);
  std::vector<Host> chosen;
  for (Host host : hosts) {
    const auto choice =
        std::find_if(choices.begin(), choices.end(), [&](const auto& c) { return c.host == host.name; });
    if (choice == choices.end() && includes) continue;
    if (choice != choices.end()) {
      const bool names_all = choice->slots.empty();
      host.has_chosen_slots = !names_all;
      std::erase_if(host.slots, [&](int slot) {
        return (names_all || std::find(choice->slots.begin(), choice->slots.end(), slot) != choice->slots.end()) !=
               includes;
      });
    }
    if (!host.slots.empty()) chosen.push_back(std::move(host));
  }
  if (chosen.empty())
    throw config_error(concat("--exclude is ", in_quotes(exclude), ": no slot is left; expected one or more"));
  return chosen;
}

std::vector<std::string> expand_node_list(const std::string& list) {
  std::vector<std::string> names;
  for (const auto& part : outer_parts(list)) expand(list, "", part, names);
  return names;
}

}  // namespace penstock
