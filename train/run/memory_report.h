// Memory report: what the tensors of every rank take, beside the formula of the mode.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/comm/comm.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock {

/// One entry per rank: the kinds of memory that its strategy counts.
using MemoryOfRanks = std::vector<std::vector<KindMemory>>;

/// Collective. `device` is that of this rank.
MemoryOfRanks gather_memory(const std::vector<KindMemory>& mine, Comm& comm, const torch::Device& device);

/// Per kind: the formula, lists with one entry per rank, and `formula_share`, which is the smallest ratio of formula to
/// measured bytes of any rank, null where a rank has none.
nlohmann::ordered_json memory_json(const MemoryOfRanks& ranks);

/// `memory of the fullest rank: parameters 44.7 MB (phi: 44.7 MB, 100.0 % of what was measured), gradients
/// 22.4 MB, in a step up to 44.8 MB (phi / 2: ...`, then `mark`; "" for one rank, and if nothing is known.
std::string memory_text(const MemoryOfRanks& ranks, const std::string& mark = "\n");

}  // namespace penstock
