// Subsets: some samples of a data set, as a list of specs says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loader/shards/dataset.h"

namespace penstock {

/// For help texts.
inline constexpr const char* kSubsetHelp =
    "some of the samples. percent(0-10): of each class, in the order of their ids, so that percent(0-10) and "
    "percent(10-100) share none; fraction(0.1,seed=1): a random share of all; ids(FILE): those in a file, an id per "
    "line; classes(cat:dog): those of these classes. Of several, each takes from what the one before it has left";

/// The indices, in ascending order, of the samples that `subset` leaves. It is a list of
///   percent(a-b)        of each class, the samples whose rank by id, in per cent, is a or more and less than b;
///   fraction(s,seed=0)  round(s * count) samples that a hash of seed and id chooses;
///   ids(FILE)           see read_ids();
///   classes(a:b)        by name.
/// Each chooses among those that the ones before it have left. Then the ids in `exclude_ids` go, a file or "". The keys
/// in full: percent(range=0:10), fraction(share=0.1,seed=1), ids(file=F), classes(names=a:b).
///
/// The samples depend on ids, labels and the text alone, and not on how they are dealt over shards. Errors:
/// config_error for a spec that is none, an unknown class, an id that is not there, and a subset without samples.
std::vector<uint64_t> subset_of(const Dataset& dataset, const std::string& subset, const std::string& exclude_ids);

/// A checksum of the ids and labels of these samples, in their order.
uint64_t checksum_of(const Dataset& dataset, const std::vector<uint64_t>& indices);

}  // namespace penstock
