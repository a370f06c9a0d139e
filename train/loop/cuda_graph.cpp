// CudaGraph: who makes those of a device, and the stand-in on the CPU.
#include "train/loop/cuda_graph.h"

#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

DeviceGraphMaker* device_graph_maker = nullptr;

class CpuGraph final : public CudaGraph {
 public:
  void warm_up(const Work& work) override { results_ = work(); }
  void capture(const Work& work) override {
    work_ = work;
    results_.clear();
  }
  /// Results keep their memory from replay to replay, as they do on a device.
  void replay() override {
    auto fresh = work_();
    if (results_.empty()) results_ = std::move(fresh);
    for (size_t i = 0; i < fresh.size(); ++i) results_[i].copy_(fresh[i]);
  }
  void reset() override { work_ = {}; }

 private:
  Work work_;
};

}  // namespace

void set_device_graph_maker(DeviceGraphMaker* maker) { device_graph_maker = maker; }

std::unique_ptr<CudaGraph> make_device_graph(const torch::Device& device) {
  if (device.is_cuda() && device_graph_maker != nullptr) return device_graph_maker(device);
  if (!device.is_cpu()) throw device_error(concat("--graph: ", device.str(), " has no graphs; expected cpu or cuda"));
  return std::make_unique<CpuGraph>();
}

}  // namespace penstock
