// Memory report: gathers the numbers of all ranks, and says them.
#include "train/run/memory_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/number_text.h"
#include "core/text.h"

namespace penstock {
namespace {

/// What the formula's bytes are of the measured ones; none where nothing is held.
std::optional<double> formula_share(const KindMemory& memory) {
  if (memory.bytes > 0) return memory.formula_bytes / static_cast<double>(memory.bytes);
  return std::nullopt;
}

/// The kind with this index at the rank where it takes most in a step.
const KindMemory& fullest(const MemoryOfRanks& ranks, size_t kind) {
  const auto rank = std::max_element(ranks.begin(), ranks.end(), [kind](const auto& one, const auto& other) {
    return one[kind].peak_bytes < other[kind].peak_bytes;
  });
  return (*rank)[kind];
}

}  // namespace

MemoryOfRanks gather_memory(const std::vector<KindMemory>& mine, Comm& comm, const torch::Device& device) {
  MemoryOfRanks ranks(static_cast<size_t>(comm.world_size()), mine);
  if (mine.empty()) return ranks;
  constexpr int64_t kNumbers = 3;
  auto numbers = torch::empty({static_cast<int64_t>(mine.size()), kNumbers}, torch::kFloat64);  // exact to 2^53
  for (size_t kind = 0; kind < mine.size(); ++kind) {
    const auto row = numbers[static_cast<int64_t>(kind)];
    row[0] = static_cast<double>(mine[kind].bytes);
    row[1] = static_cast<double>(mine[kind].peak_bytes);
    row[2] = mine[kind].formula_bytes;
  }
  const auto all = comm.all_gather(numbers.to(device)).cpu();
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (size_t kind = 0; kind < mine.size(); ++kind) {
      const auto row = all[static_cast<int64_t>(rank)][static_cast<int64_t>(kind)];
      ranks[rank][kind].bytes = static_cast<int64_t>(row[0].item<double>());
      ranks[rank][kind].peak_bytes = static_cast<int64_t>(row[1].item<double>());
      ranks[rank][kind].formula_bytes = row[2].item<double>();
    }
  return ranks;
}

nlohmann::ordered_json memory_json(const MemoryOfRanks& ranks) {
  auto json = nlohmann::ordered_json::object();
  for (size_t kind = 0; kind < ranks.front().size(); ++kind) {
    nlohmann::ordered_json one{{"formula", ranks.front()[kind].formula}};
    std::optional<double> least = 1e300;
    for (const auto& rank : ranks) {
      one["bytes"].push_back(rank[kind].bytes);
      one["peak_bytes"].push_back(rank[kind].peak_bytes);
      one["formula_bytes"].push_back(rank[kind].formula_bytes);
      const auto share = formula_share(rank[kind]);
      least = share && least ? std::optional(std::min(*least, *share)) : std::nullopt;
    }
    one["formula_share"] = least ? nlohmann::ordered_json(*least) : nlohmann::ordered_json();
    json[ranks.front()[kind].kind] = std::move(one);
  }
  return json;
}

std::string memory_text(const MemoryOfRanks& ranks, const std::string& mark) {
  if (ranks.size() < 2 || ranks.front().empty()) return "";
  std::vector<std::string> parts;
  for (size_t kind = 0; kind < ranks.front().size(); ++kind) {
    const KindMemory& memory = fullest(ranks, kind);
    const auto share = formula_share(memory);
    parts.push_back(concat(memory.kind, " ", byte_text(static_cast<uint64_t>(memory.bytes)),
                           memory.peak_bytes > memory.bytes
                               ? concat(", in a step up to ", byte_text(static_cast<uint64_t>(memory.peak_bytes)))
                               : std::string(),
                           " (", memory.formula, ": ", byte_text(static_cast<uint64_t>(memory.formula_bytes)),
                           share ? concat(", ", percent_text(*share, 1), " of what was measured)") : std::string(")")));
  }
  return concat("memory of the fullest rank: ", join(parts), mark);
}

}  // namespace penstock
