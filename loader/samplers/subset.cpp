// Subsets: each spec filters a list of (id, label, index).
#include "loader/samplers/subset.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "core/spec.h"
#include "core/text.h"
#include "loader/order/mix.h"
#include "loader/samplers/id_list.h"

namespace penstock {
namespace {

struct Candidate {
  size_t part;  // of the data set, if it is joined of several
  uint64_t id, index;
  int64_t label;

  auto place() const { return std::tuple(part, id, index); }
};
using Candidates = std::vector<Candidate>;

struct Filter {
  const char* key;      // whose value may stand without its name
  const char* example;  // for messages
  std::vector<std::string> keys;
  void (*apply)(const Spec&, const Dataset&, Candidates&);
};

void keep_percent(const Spec& spec, const Dataset& dataset, Candidates& candidates) {
  const Range range = spec.get("range", Range{0, 100});
  if (range.low < 0 || range.high > 100 || range.low >= range.high)
    throw config_error(concat(spec.where(), ": range is ", range.low, " to ", range.high,
                              "; expected 0 to 100 per cent, the first less than the second, as in percent(0-10)"));
  const size_t class_count = dataset.manifest().class_names.size() + 1;
  std::vector<uint64_t> counts(dataset.parts().size() * class_count), ranks(counts.size());
  const auto class_of = [&](const Candidate& candidate) {
    return candidate.part * class_count + static_cast<size_t>(candidate.label);
  };
  for (const auto& candidate : candidates) ++counts[class_of(candidate)];
  const auto bound = [](uint64_t count, double percent) {  // the same for the end of a range and the begin of the next
    return static_cast<uint64_t>(std::floor(static_cast<double>(count) * percent / 100));
  };
  std::erase_if(candidates, [&](const Candidate& candidate) {
    const uint64_t count = counts[class_of(candidate)], rank = ranks[class_of(candidate)]++;
    return rank < bound(count, range.low) || rank >= bound(count, range.high);
  });
}

void keep_fraction(const Spec& spec, const Dataset&, Candidates& candidates) {
  const double share = spec.get("share", 1.0);
  if (!(share > 0 && share <= 1))
    throw config_error(concat(spec.where(), ": share is ", share, "; expected more than 0 and at most 1"));
  const auto seed = static_cast<uint64_t>(static_cast<int64_t>(spec.get("seed", 0)));
  const auto count = static_cast<size_t>(std::llround(share * static_cast<double>(candidates.size())));
  const auto hash = [&](const Candidate& candidate) {
    return detail::keyed_bits(seed, candidate.id, 0x5EED + candidate.part);
  };
  auto sorted = candidates;
  std::sort(sorted.begin(), sorted.end(), [&](const Candidate& a, const Candidate& b) {
    return std::pair(hash(a), a.index) < std::pair(hash(b), b.index);
  });
  sorted.resize(count);
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.place() < b.place(); });
  candidates = std::move(sorted);
}

/// The ids of a file, each with the data set that it belongs to.
class IdList {
 public:
  IdList(const std::string& path, const Dataset& dataset) {
    for (const auto& part : dataset.parts()) names_.push_back(part.name());
    for (auto& [id, data] : read_ids(path, dataset.manifest().split)) ids_[std::move(data)].insert(id);
  }

  bool has(const Candidate& candidate) const {
    const auto lists = [&](const std::string& data) {
      const auto found = ids_.find(data);
      return found != ids_.end() && found->second.contains(candidate.id);
    };
    return lists(kAnyData) || lists(names_[candidate.part]);
  }
  /// The least id that no candidate has, without those of other data sets.
  std::optional<uint64_t> missing(const Candidates& candidates) const {
    auto left = ids_;
    for (const auto& candidate : candidates)
      for (const auto& data : {kAnyData, names_[candidate.part]})
        if (const auto found = left.find(data); found != left.end()) found->second.erase(candidate.id);
    std::set<uint64_t> missing;
    missing.insert(left[kAnyData].begin(), left[kAnyData].end());
    for (const auto& data : names_) missing.insert(left[data].begin(), left[data].end());
    return missing.empty() ? std::nullopt : std::optional(*missing.begin());
  }

 private:
  inline static const std::string kAnyData;                  // "": an id that names no data set
  std::map<std::string, std::unordered_set<uint64_t>> ids_;  // by data set
  std::vector<std::string> names_;                           // one entry per data set
};

void keep_ids(const Spec& spec, const Dataset& dataset, Candidates& candidates) {
  const std::string path = spec.get("file", "");
  const IdList list(path, dataset);
  if (const auto id = list.missing(candidates))
    throw config_error(concat(path, ": id ", *id, " is that of no sample of ", dataset.folder().string(),
                              "; expected ids of its samples"));
  std::erase_if(candidates, [&](const Candidate& candidate) { return !list.has(candidate); });
}

void keep_classes(const Spec& spec, const Dataset& dataset, Candidates& candidates) {
  const auto& names = dataset.manifest().class_names;
  std::vector<bool> is_kept(names.size() + 1);
  for (const auto& name : split(spec.get("names", ""), ':')) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) throw config_error(concat(spec.where(), ": ", unknown_name("class", name, names)));
    is_kept[static_cast<size_t>(found - names.begin())] = true;
  }
  std::erase_if(candidates, [&](const Candidate& candidate) { return !is_kept[static_cast<size_t>(candidate.label)]; });
}

const std::map<std::string, Filter>& filters() {
  static const std::map<std::string, Filter> filters{
      {"percent", {"range", "percent(0-10)", {"range"}, keep_percent}},
      {"fraction", {"share", "fraction(0.1,seed=1)", {"share", "seed"}, keep_fraction}},
      {"ids", {"file", "ids(FILE), a file with an id per line", {"file"}, keep_ids}},
      {"classes", {"names", "classes(cat:dog)", {"names"}, keep_classes}}};
  return filters;
}

/// Throws where a value after the first one has no key, as in `ids(1,2,3)`. `inside`: of the parentheses.
void check_further(const std::string& name, const Filter& filter, const std::string& inside) {
  const auto values = split(inside, ',');
  for (size_t i = 1; i < values.size(); ++i)
    if (values[i].find('=') == std::string::npos)
      throw config_error(concat("subset ", in_quotes(concat(name, "(", inside, ")")), ": has several values; expected ",
                                filter.example));
}

/// `percent(0-10)` as `percent(range=0:10)`: the first value may stand without its key.
std::string with_keys(std::string text) {
  for (const auto& [name, filter] : filters()) {
    const std::string head = name + "(";
    for (size_t at = text.find(head); at != std::string::npos; at = text.find(head, at + 1)) {
      const size_t begin = at + head.size(), end = text.find_first_of(",)", begin);
      if (end == std::string::npos || end == begin) continue;
      std::string value = text.substr(begin, end - begin);
      check_further(name, filter, text.substr(begin, text.find(')', begin) - begin));
      if (value.find('=') != std::string::npos) continue;
      if (name == "percent") std::replace(value.begin() + 1, value.end(), '-', ':');
      text.replace(begin, end - begin, concat(filter.key, "=", value));
    }
  }
  return text;
}

void exclude(const std::string& path, const Dataset& dataset, Candidates& candidates) {
  const IdList list(path, dataset);
  std::erase_if(candidates, [&](const Candidate& candidate) { return list.has(candidate); });
}

}  // namespace

std::vector<uint64_t> subset_of(const Dataset& dataset, const std::string& subset, const std::string& exclude_ids) {
  Candidates candidates;
  // Samples without a class, whatever label stands there, are those of one class.
  const bool has_classes = !dataset.manifest().class_names.empty();
  for (size_t part = 0; part < dataset.parts().size(); ++part)
    for (uint64_t index = dataset.parts()[part].begin; index < dataset.parts()[part].end; ++index) {
      const Sample sample = dataset.at(index);
      candidates.push_back({part, sample.id, index, has_classes ? sample.label : 0});
    }
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.place() < b.place(); });
  const auto demand_some = [&](const std::string& what) {
    if (candidates.empty())
      throw config_error(concat(what, ": leaves 0 of the ", dataset.size(), " samples of ", dataset.folder().string(),
                                "; expected 1 or more"));
  };
  for (const Spec& spec : parse_spec_list("subset", with_keys(subset))) {
    const auto found = filters().find(spec.name());
    if (found == filters().end()) {
      std::vector<std::string> names;
      for (const auto& [name, filter] : filters()) names.push_back(name);
      throw config_error(unknown_name("subset", spec.name(), names));
    }
    if (!spec.has(found->second.key))
      throw config_error(concat(spec.where(), ": has no ", found->second.key, "; expected ", spec.name(), "(",
                                found->second.key, "=...)"));
    found->second.apply(spec.with_keys(found->second.keys), dataset, candidates);
    demand_some(concat("subset ", subset));
  }
  if (!exclude_ids.empty()) {
    exclude(exclude_ids, dataset, candidates);
    demand_some(concat("exclude-ids ", exclude_ids));
  }
  std::vector<uint64_t> indices;
  for (const auto& candidate : candidates) indices.push_back(candidate.index);
  std::sort(indices.begin(), indices.end());
  return indices;
}

uint64_t checksum_of(const Dataset& dataset, const std::vector<uint64_t>& indices) {
  uint64_t sum = 0;
  for (const uint64_t index : indices) {
    const Sample sample = dataset.at(index);
    const uint64_t pair[2] = {sample.id, static_cast<uint64_t>(sample.label)};
    sum = XXH3_64bits_withSeed(pair, sizeof pair, sum);
  }
  return sum;
}

}  // namespace penstock
