// StrategyHarness: how it is put together.
#include "train/verify/strategy_harness.h"

namespace penstock {

DeviceBatch StrategyHarness::part(const Samples& samples, int64_t batch_size, int64_t index) const {
  auto batch = part_of(samples, batch_size, index, strategy->data_rank(), strategy->data_world_size(), short_batch_);
  if (!strategy->is_fed()) batch.images = batch.labels = batch.weights = torch::Tensor();
  return batch;
}

StrategyHarness::StrategyHarness(const std::string& mode, std::unique_ptr<Model> built, const ModelMaker& make,
                                 Comm& comm, const OptimizerOptions& options, torch::ScalarType dtype,
                                 const torch::Device& device, const std::vector<int64_t>& input_sizes, int micro_shards,
                                 const StepOptions& step, detail::StepTaps* taps,
                                 const std::map<std::string, double>& rate_factors)
    : model(std::move(built)), short_batch_(short_batch_of(micro_shards)) {
  model->to(dtype);
  StrategyContext context{*model, comm, device, options, recorder};
  context.input_sizes = input_sizes;
  context.make_model = make;
  context.micro_shards = micro_shards;
  context.step = step;
  context.taps = taps;
  context.rate_factors = rate_factors;
  context.log = [this](const std::string& line) { said.push_back(line); };
  strategy = StrategyRegistry::make(parse_spec("mode", mode), context);
}

}  // namespace penstock
