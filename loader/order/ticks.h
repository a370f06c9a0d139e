// Ticks: places at equal distances on a line, which decide how often each piece of the line is taken.
#pragma once

#include <cstdint>

#include "loader/order/mix.h"

namespace penstock {

/// `count` ticks on a line of `length` units, all of one distance: tick k is in unit (offset + k * length) / count,
/// rounded down. A piece of w units has w * count / length ticks in it, rounded down or up, whatever the offset, and
/// all pieces together have `count`: systematic sampling (Madow 1949, "On the theory of systematic sampling, II"), in
/// integers.
///
/// Requires 0 < length < 2^63, 0 < count < 2^63, offset < length, and ticks and units inside of the line.
struct Ticks {
  uint64_t count, length, offset;

  uint64_t unit_of(uint64_t tick) const { return static_cast<uint64_t>((offset + Wide{tick} * length) / count); }
  /// The first tick in this unit or after it; `count` if there is none.
  uint64_t first_at(uint64_t unit) const {
    const Wide place = Wide{unit} * count;
    return place <= offset ? 0 : static_cast<uint64_t>((place - offset + length - 1) / length);
  }

 private:
  using Wide = detail::Wide;
};

}  // namespace penstock
