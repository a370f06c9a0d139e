// number_reader(): a number in a shard, of whatever dtype, as a double.
#pragma once

#include <cstdint>

#include "loader/files/dtype.h"

namespace penstock {

/// How a number of this dtype is read; it need not be aligned. Exact, but for whole numbers beyond 2^53, which are
/// rounded.
double (*number_reader(Dtype dtype))(const uint8_t* at);

}  // namespace penstock
