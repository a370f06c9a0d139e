// Sinks: makes one of each registered kind.
#include "train/sinks/sink.h"

namespace penstock {

std::vector<std::unique_ptr<Sink>> make_sinks(const SinkContext& context) {
  std::vector<std::unique_ptr<Sink>> sinks;
  for (const auto& name : SinkRegistry::names())
    sinks.push_back(SinkRegistry::make(parse_spec(SinkKind::kName, name), context));
  return sinks;
}

}  // namespace penstock
