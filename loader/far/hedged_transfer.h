// hedged_transfer(): a range that somebody waits for and that is slow is asked for a second time.
#pragma once

#include <functional>

#include "loader/far/range_times.h"
#include "loader/far/transfer.h"

namespace penstock::detail {

/// As transfer(), for a wish with an end. Where the range is slow by `times` when somebody waits for it, and the budget
/// there allows it, the bytes that are still missing are asked for on another connection as well:
///
///     first   begin |===-----------|--------------- ...   slow, and given up when the second one has reached the end
///     second                       |==================|   begins with the byte that was reached
///                                  times.late_after_ns()
///
/// Bytes are taken from whichever is ahead, so that the sink sees each once and in order; the other is given up when
/// one has reached the end. Errors: those of the first; what goes wrong with the second only ends the second. Bytes of
/// two objects (two ETags) are not mixed: ObjectChanged. The sink may be called on another thread than the caller's; it
/// and `on_wait` are never called at once.
void hedged_transfer(Origin& origin, const TransferWish& wish, const TransferCallbacks& callbacks, RangeTimes& times,
                     const std::function<bool()>& is_waited_for);

}  // namespace penstock::detail
