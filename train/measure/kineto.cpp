// KinetoSession: starts and stops LibTorch's profiler, and converts its times.
#include "train/measure/kineto.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <set>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

namespace profiler = torch::autograd::profiler;

constexpr int kMarkCount = 16;
constexpr const char* kMarkName = "penstock: clock";

}  // namespace

KinetoSession::KinetoSession(bool with_cuda) {
  std::set<profiler::ActivityType> activities{profiler::ActivityType::CPU};
  if (with_cuda) activities.insert(profiler::ActivityType::CUDA);
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  for (int i = 0; i < kMarkCount; ++i) {
    const int64_t before_ns = now_ns();
    { RECORD_FUNCTION(kMarkName, std::vector<c10::IValue>()); }
    marks_.push_back({before_ns, now_ns()});
  }
}

KinetoSession::~KinetoSession() {
  if (is_on_) profiler::disableProfiler();
}

std::vector<OpTime> KinetoSession::stop() {
  is_on_ = false;
  const auto result = profiler::disableProfiler();
  std::vector<OpTime> ops, found;
  for (const auto& event : result->events()) {
    const bool is_on_device = event.deviceType() != c10::DeviceType::CPU;
    OpTime op{event.name(), is_on_device,
              is_on_device ? static_cast<uint64_t>(event.deviceResourceId()) : event.startThreadId(),
              static_cast<int64_t>(event.startNs()), static_cast<int64_t>(event.endNs())};
    if (op.end_ns < op.begin_ns) continue;  // the operator had not ended when the profile did
    (op.name == kMarkName ? found : ops).push_back(std::move(op));
  }
  if (found.size() != marks_.size()) {
    throw bug_error(concat("profile: Kineto gives ", found.size(), " of our marks; expected ", marks_.size(),
                           " to align its clock"));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  const auto shortest = std::min_element(marks_.begin(), marks_.end(), [](const auto& a, const auto& b) {
    return a.after_ns - a.before_ns < b.after_ns - b.before_ns;
  });
  const OpTime& mark = found[static_cast<size_t>(shortest - marks_.begin())];
  // From the middle of the mark to the middle of our interval; the sums are halved only once, so that nothing is
  // rounded twice.
  const int64_t shift_ns = (shortest->before_ns + shortest->after_ns - mark.begin_ns - mark.end_ns) / 2;
  for (auto& op : ops) {
    op.begin_ns += shift_ns;
    op.end_ns += shift_ns;
  }
  return ops;
}

}  // namespace penstock
