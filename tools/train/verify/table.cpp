// Table: columns, the lines below it, and JSON.
#include "tools/train/verify/table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/number_text.h"
#include "core/text.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

std::string number(double value) { return printed("%.1e", value); }

/// Powers of ten and the numbers of a mode: "1e-12", "0.00098".
std::string bound_text(double bound) { return printed("%.2g", bound); }

std::string hosting_text(const Comparison& pair) { return pair.ranks == 1 ? "-" : name_of(pair.hosting); }

std::vector<std::string> cells_of(const Comparison& pair) {
  return {pair.mode, std::to_string(pair.ranks), hosting_text(pair), pair.subject.arch, name_of(pair.equivalence)};
}

const std::vector<std::string> kHead{"mode",       "ranks", "hosting", "arch", "class",
                                     "difference", "bound", "verdict", "flags"};

/// null where there is none, or -1, or a number that JSON has not.
Json json_of(const Localised& localised) {
  const auto& [pair, place, failure] = localised;
  Json json{{"mode", pair.mode},
            {"ranks", pair.ranks},
            {"arch", pair.subject.arch},
            {"flags", flags_of(pair.subject)},
            {"class", name_of(pair.equivalence)},
            {"failure", failure}};
  if (!place) return json;
  json["step"] = place->step < 0 ? Json(nullptr) : Json(place->step);
  json["rank"] = place->rank < 0 ? Json(nullptr) : Json(place->rank);
  json["micro_batch"] = place->micro_batch < 0 ? Json(nullptr) : Json(place->micro_batch);
  json["stage"] = place->stage;
  json["operation"] = place->operation;
  json["tensor"] = place->tensor;
  json["problem"] = place->problem;
  json["difference"] = std::isfinite(place->difference) ? Json(place->difference) : Json(nullptr);
  json["bound"] = place->bound;
  return json;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<std::string> texts;
  for (const int count : ranks)
    if (count > 0) texts.push_back(std::to_string(count));
  return concat(join(texts), texts == std::vector<std::string>{"1"} ? " rank" : " ranks");
}

}  // namespace

VerdictTable::VerdictTable(const std::vector<Comparison>& pairs) {
  for (const auto& name : kHead) widths_.push_back(name.size());
  for (const auto& pair : pairs) {
    const auto cells = cells_of(pair);
    for (size_t i = 0; i < cells.size(); ++i) widths_[i] = std::max(widths_[i], cells[i].size());
  }
}

std::string VerdictTable::line(const std::vector<std::string>& cells) const {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    line += cells[i];
    if (i + 1 < cells.size()) line.append(2 + widths_[i] - std::min(widths_[i], cells[i].size()), ' ');
  }
  return line;
}

std::string VerdictTable::head() const { return line(kHead); }

std::string VerdictTable::line(const Verdict& verdict) const {
  auto cells = cells_of(verdict.pair);
  cells.push_back(verdict.failure.empty() ? number(verdict.difference) : "-");
  cells.push_back(bound_text(verdict.pair.bound));
  cells.push_back(verdict.holds() ? "holds" : verdict.failure.empty() ? "DIFFERS" : "FAILS");
  if (const auto flags = flags_of(verdict.pair.subject); !flags.empty()) cells.push_back(flags);
  return line(cells);
}

std::vector<std::string> left_out_lines(const std::vector<Skipped>& left_out) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;  // by ranks, arch and reason, in their order
  for (const auto& one : left_out) {
    const std::string where = concat(" with ", ranks_text(one.ranks), one.subject.empty() ? "" : " and " + one.subject,
                                     one.equivalence.empty() ? "" : ", " + one.equivalence, ": ", one.reason);
    const auto found =
        std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == where; });
    if (found == groups.end())
      groups.push_back({where, {one.mode}});
    else
      found->second.push_back(one.mode);
  }
  std::vector<std::string> lines;
  for (const auto& [where, modes] : groups) lines.push_back(concat("not run: ", join(modes), where));
  return lines;
}

std::vector<std::string> caught_lines(const std::vector<Verdict>& verdicts) {
  struct Caught {
    const Verdict* first = nullptr;
    size_t count = 0, all_count = 0;
  };
  std::vector<std::pair<std::string, std::string>> order;
  std::map<std::pair<std::string, std::string>, Caught> by_class;
  for (const auto& verdict : verdicts) {
    const std::pair key{name_of(verdict.pair.equivalence), verdict.pair.mode};
    auto& caught = by_class[key];
    ++caught.all_count;
    if (verdict.holds()) continue;
    if (caught.count++ > 0) continue;
    caught.first = &verdict;
    order.push_back(key);
  }
  std::vector<std::string> lines;
  for (const auto& key : order) {
    const auto& [first, count, all_count] = by_class.at(key);
    const auto& pair = first->pair;
    const std::string where =
        concat(ranks_text({pair.ranks}), ", ", pair.ranks > 1 ? hosting_text(pair) + ", " : "", text_of(pair.subject),
               first->tensor.empty() ? "" : "; largest in " + first->tensor);
    const std::string what =
        first->failure.empty() ? concat(number(first->difference), " > ", bound_text(pair.bound)) : first->failure;
    lines.push_back(concat("caught by ", key.first, ": ", key.second, ", ", what, " (", where, "), ", count, " of ",
                           count_text(all_count, "pair")));
  }
  return lines;
}

std::string place_line(const Localised& localised) {
  const auto& pair = localised.pair;
  return concat("place: ", pair.mode, ", ", ranks_text({pair.ranks}), ", ",
                pair.ranks > 1 ? hosting_text(pair) + ", " : "", text_of(pair.subject), ", ", name_of(pair.equivalence),
                ": ", localised.place ? text_of(*localised.place) : "",
                localised.place && !localised.failure.empty() ? ": " : "", localised.failure);
}

std::string result_line(const std::vector<Verdict>& verdicts) {
  const auto count =
      std::count_if(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) { return verdict.holds(); });
  return concat(count, " of ", count_text(verdicts.size(), "pair"), count == 1 ? " holds" : " hold");
}

std::string json_text(const std::vector<Verdict>& verdicts, const std::vector<Skipped>& left_out,
                      const std::vector<Localised>& places) {
  Json json{{"pairs", Json::array()}, {"not_run", Json::array()}, {"places", Json::array()}};
  bool holds = true;
  for (const auto& verdict : verdicts) {
    const auto& pair = verdict.pair;
    holds = holds && verdict.holds();
    json["pairs"].push_back(
        {{"mode", pair.mode},
         {"ranks", pair.ranks},
         {"hosting", pair.ranks == 1 ? Json(nullptr) : Json(name_of(pair.hosting))},
         {"arch", pair.subject.arch},
         {"flags", flags_of(pair.subject)},
         {"class", name_of(pair.equivalence)},
         {"difference", std::isfinite(verdict.difference) ? Json(verdict.difference) : Json(nullptr)},
         {"bound", pair.bound},
         {"holds", verdict.holds()},
         {"tensor", verdict.tensor},
         {"failure", verdict.failure},
         {"seconds", verdict.seconds}});
  }
  for (const auto& one : left_out)
    json["not_run"].push_back({{"mode", one.mode},
                               {"arch", one.subject},
                               {"ranks", one.ranks},
                               {"class", one.equivalence},
                               {"reason", one.reason}});
  for (const auto& one : places) json["places"].push_back(json_of(one));
  json["holds"] = holds;
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace penstock
