// Interrupt: one pointer per thread.
#include "loader/files/interrupt.h"

#include <utility>

namespace penstock::detail {
namespace {

thread_local const InterruptScope::Check* innermost_check = nullptr;

}  // namespace

InterruptScope::InterruptScope(const Check& is_over) : before_(std::exchange(innermost_check, &is_over)) {}
InterruptScope::~InterruptScope() { innermost_check = before_; }

bool is_interrupted() { return innermost_check != nullptr && (*innermost_check)(); }

}  // namespace penstock::detail
