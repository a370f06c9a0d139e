// add_sample(): adds a sample to a shard, with the columns that every shard has.
#pragma once

#include "loader/shards/shard_writer.h"

namespace penstock::testing_data {

inline void add_sample(ShardWriter& writer, uint64_t id, int64_t label, const Extent& extent, Encoding encoding,
                       std::span<const uint8_t> bytes) {
  writer.add({.id = id, .label = label, .extent = extent, .encoding = encoding, .bytes = bytes});
}

}  // namespace penstock::testing_data
