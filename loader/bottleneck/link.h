// Link: what limits a loop whose data come from far away, and what would help.
#pragma once

#include <string>
#include <vector>

#include "loader/bottleneck/bottleneck_model.h"

namespace penstock::detail {

/// The rates over a quarter, half, twice and four times the link, and with each of run.cache_cases; none where nothing
/// came from far away.
std::vector<LinkPrediction> link_predictions(const LoopMeasurement& run);

/// "load-bound: the link gives 85 MB/s; 37 % of the bytes come from the cache". With a full shuffle and a small cache
/// the link brings more bytes than the images have, because a shard is fetched for few of them; then it says that.
/// Where the delays of the requests cost more than their bytes: "load-bound: each request waits 21.2 ms for its first
/// byte, and then 157 KB come at 85 MB/s".
std::string link_fact(const LoopMeasurement& run);

/// ", twice the link would give 1.9x, a cache of 2.0 GB would give 3.1x": what would help where the link limits, which
/// is half as many shards, at most, in place of twice the link where their delays do. The cache is the smallest that is
/// as good as the best.
std::string link_advice(const LoopMeasurement& run);

}  // namespace penstock::detail
