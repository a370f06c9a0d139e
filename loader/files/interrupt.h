// Interrupt: how a thread that waits for something far away learns that nobody waits for it any more.
#pragma once

#include <functional>

namespace penstock::detail {

/// While one lives, waits of this thread ask `is_over` every 100 ms, and give up when it says true or throws. The
/// innermost one counts. It belongs to a thread, because what waits (a fetch inside of a read of a sample) is many
/// calls below who knows that a loader is being dropped.
class InterruptScope {
 public:
  using Check = std::function<bool()>;
  explicit InterruptScope(const Check& is_over);  ///< `is_over` must outlive it.
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  const Check* const before_;
};

/// Whether this thread shall give up what it waits for. Throws what the check throws.
bool is_interrupted();

}  // namespace penstock::detail
