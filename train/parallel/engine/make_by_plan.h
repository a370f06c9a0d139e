// make_by_plan(): the factory of every mode whose step the engine can make from the plan alone.
#pragma once

#include <memory>

#include "train/parallel/strategy/strategy.h"

namespace penstock::detail {

/// The step of the plan that StrategyKind::Traits::plan of this mode gives, which must be complete.
std::unique_ptr<Strategy> make_by_plan(const Spec& spec, const StrategyContext& context);

}  // namespace penstock::detail
