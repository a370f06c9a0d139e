// Replicas: scatter, parallel forward, gather, parallel backward, sum.
#include "train/parallel/replicas/replicas.h"

#include <ATen/Parallel.h>
#ifdef PENSTOCK_HAS_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "train/measure/recorder.h"
#include "train/nn/layers.h"
#include "train/nn/model.h"
#include "train/nn/weight_gradients.h"
#include "train/tensor/ordered_sum.h"

namespace penstock::detail {
namespace {

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::vector<std::string> texts;
  for (const int64_t size : sizes) texts.push_back(std::to_string(size));
  return join(texts, " x ");
}

/// On a GPU the stream keeps the order; a copy to the host has arrived on return.
torch::Tensor moved(const torch::Tensor& tensor, const torch::Device& device) {
  return tensor.to(device, /*non_blocking=*/device.is_cuda());
}

/// Cuts the tensors into `count` stretches of about equal bytes: the first index of each, and the end.
std::vector<size_t> even_stretches(const std::vector<torch::Tensor>& tensors, size_t count) {
  int64_t all = 0;
  for (const auto& tensor : tensors) all += tensor.numel();
  std::vector<size_t> begins{0};
  int64_t before = 0;
  for (size_t i = 0; i < tensors.size() && begins.size() < count; ++i) {
    before += tensors[i].numel();
    while (begins.size() < count && before * static_cast<int64_t>(count) >= all * static_cast<int64_t>(begins.size()))
      begins.push_back(i + 1);
  }
  begins.resize(count, tensors.size());
  begins.push_back(tensors.size());
  return begins;
}

/// The most that LibTorch's allocator has given out on this device; 0 on the CPU, where it does not count.
int64_t peak_bytes([[maybe_unused]] const torch::Device& device) {
#ifdef PENSTOCK_HAS_CUDA
  if (device.is_cuda()) {
    const auto statistics = c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    return statistics.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak;
  }
#endif
  return 0;
}

class ReplicaSync final : public GradientSync {
 public:
  explicit ReplicaSync(std::shared_ptr<Replicas> replicas) : replicas_(std::move(replicas)) {}
  void begin() override { replicas_->reset_gradients(); }
  void finish() override { replicas_->sum_gradients(); }

 private:
  std::shared_ptr<Replicas> replicas_;
};

}  // namespace

struct Replicas::Replica {
  explicit Replica(const torch::Device& at) : device(at) { recorder.use_device(at); }

  torch::Device device;
  std::unique_ptr<Model> own;  // null: it is the model
  Model* model = nullptr;
  std::vector<torch::Tensor> parameters, buffers;  // in the order of the model
  Recorder recorder;
  int64_t first_row = 0, row_count = 0;  // of the present batch
  WeightGradients weight_gradients;      // with shards: each is made by itself
  torch::Tensor output;                  // of the last forward, until its backward
};

Replicas::Replicas(Model& model, const torch::Device& output, const std::vector<torch::Device>& devices,
                   const std::function<std::unique_ptr<Model>()>& make_model,
                   std::function<void(const std::string&)> log, bool has_shards)
    : model_(model),
      output_(output),
      log_(std::move(log)),
      has_shards_(has_shards),
      parameters_(model.parameters()),
      buffers_(model.buffers()),
      sum_begin_(even_stretches(parameters_, devices.size())),
      intra_op_threads_(at::get_num_threads()),
      threads_(devices, intra_op_threads_) {
  bool has_model = false;
  for (const auto& device : devices) {
    auto& replica = *replicas_.emplace_back(std::make_unique<Replica>(device));
    const bool is_model = device == output && !has_model;
    has_model |= is_model;
    if (!is_model && !make_model) throw bug_error("mode dp: nothing makes more models; expected StrategyContext's");
    if (!is_model) replica.own = make_model();
    replica.model = is_model ? &model : replica.own.get();
    replica.parameters = replica.model->parameters();
    replica.buffers = replica.model->buffers();
  }
  if (!has_model) throw bug_error("mode dp: no replica is on the output device; expected one");
  threads_.run([](size_t) {});  // until each has set its number: LibTorch does not lock what that changes
  if (output_.is_cpu()) at::set_num_threads(1);
}

Replicas::~Replicas() {
  if (output_.is_cpu()) at::set_num_threads(intra_op_threads_);
}

torch::Tensor Replicas::forward(const torch::Tensor& input, int64_t full_rows, const std::optional<BatchRows>& all) {
  const bool trains = torch::GradMode::is_enabled(), is_in_training_mode = model_.is_training();
  has_statistics_ = trains && is_in_training_mode && !has_shards_;
  cut(input.size(0), full_rows);
  bring_buffers();
  threads_.run([&](size_t number) {
    auto& replica = *replicas_[number];
    replica.recorder.mark(Phase::kWait);
    if (replica.row_count == 0) return;
    bring_parameters(replica);
    if (replica.model->is_training() != is_in_training_mode) replica.model->train(is_in_training_mode);
    const auto rows = input.narrow(0, replica.first_row, replica.row_count);
    auto own = all;
    if (own) own->first_position += static_cast<uint64_t>(replica.first_row);
    const RowScope scope(own);
    const WeightGradients::Scope weight_scope(has_shards_ ? &replica.weight_gradients : nullptr);
    replica.output = replica.model->forward(moved(rows, replica.device));
    replica.recorder.mark(trains ? Phase::kForward : Phase::kOther);
  });
  std::vector<torch::Tensor> outputs;
  for (const auto& replica : replicas_)
    if (replica->row_count > 0) outputs.push_back(moved(replica->output.detach(), output_));
  auto gathered = outputs.size() == 1 ? outputs.front() : torch::cat(outputs);
  if (!trains) {
    for (const auto& replica : replicas_) replica->output.reset();
    return gathered;
  }
  if (log_) tell_shapes(input);
  return gathered.requires_grad_();
}

void Replicas::backward(const torch::Tensor& gradient) {
  threads_.run([&](size_t number) {
    auto& replica = *replicas_[number];
    replica.recorder.mark(Phase::kWait);
    if (!replica.output.defined()) return;
    const auto own = gradient.narrow(0, replica.first_row, replica.row_count);
    std::exchange(replica.output, {}).backward(moved(own, replica.device));
    replica.recorder.mark(Phase::kBackward);
  });
  if (has_statistics_) merge_buffers();  // not sooner: autograd forbids to change what forward has used
}

void Replicas::reset_gradients() {
  for (const auto& replica : replicas_)
    for (const auto& parameter : replica->parameters) parameter.mutable_grad().reset();
}

void Replicas::sum_gradients() {
  threads_.run([&](size_t number) {
    at::NoGradGuard no_grad;
    auto& recorder = replicas_[number]->recorder;
    recorder.mark(Phase::kWait);
    for (size_t i = sum_begin_[number]; i < sum_begin_[number + 1]; ++i) sum_gradient(i);
    recorder.mark(Phase::kCommunication);
  });
}

void Replicas::update(const std::function<void(size_t)>& body) {
  threads_.run([&](size_t number) {
    auto& recorder = replicas_[number]->recorder;
    recorder.mark(Phase::kWait);
    body(number);
    recorder.mark(Phase::kOptimizer);
  });
}

void Replicas::sum_gradient(size_t parameter) {
  if (!parameters_[parameter].requires_grad()) return;
  torch::Tensor sum;
  PairwiseSum tree(has_shards_ ? count() : 1);
  for (int number = 0; number < count(); ++number) {
    const auto& gradient = replicas_[static_cast<size_t>(number)]->parameters[parameter].grad();
    if (!gradient.defined()) continue;
    if (has_shards_)
      tree.put(number, moved(gradient, output_));
    else if (sum.defined())
      sum.add_(moved(gradient, output_));
    else
      sum = moved(gradient, output_);
  }
  if (has_shards_) sum = tree.take();
  parameters_[parameter].mutable_grad() = sum.defined() ? sum : torch::zeros_like(parameters_[parameter]);
}

void Replicas::cut(int64_t row_count, int64_t full_rows) {
  const auto count = static_cast<int64_t>(replicas_.size());
  const int64_t each = (full_rows + count - 1) / count;
  for (int64_t i = 0; i < count; ++i) {
    auto& replica = *replicas_[static_cast<size_t>(i)];
    replica.first_row = std::min(i * each, row_count);
    replica.row_count = std::min(each, row_count - replica.first_row);
  }
}

int64_t Replicas::row_count(int replica) const { return replicas_[static_cast<size_t>(replica)]->row_count; }

const std::vector<torch::Tensor>& Replicas::buffers(int replica) const {
  return replicas_[static_cast<size_t>(replica)]->buffers;
}

/// The update works in place, so that a replica that shares the model's memory has the new values without a copy.
void Replicas::bring_parameters(Replica& replica) const {
  if (!replica.own) return;
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    auto& own = replica.parameters[i];
    const auto& model = parameters_[i];
    if (replica.device == output_) {
      if (own.const_data_ptr() != model.const_data_ptr()) own.set_data(model.detach());
      continue;
    }
    if (own.device() != replica.device || own.scalar_type() != model.scalar_type())
      own.set_data(torch::empty_like(model, model.options().device(replica.device).requires_grad(false)));
    own.copy_(model, /*non_blocking=*/replica.device.is_cuda());
  }
}

/// Before any forward: the model's own changes its buffers.
void Replicas::bring_buffers() {
  at::NoGradGuard no_grad;
  for (const auto& replica : replicas_) {
    if (!replica->own) continue;
    const auto& device = replica->device;
    for (size_t i = 0; i < buffers_.size(); ++i) {
      auto& own = replica->buffers[i];
      if (own.device() != device || own.scalar_type() != buffers_[i].scalar_type())
        own.set_data(torch::empty_like(buffers_[i], buffers_[i].options().device(device)));
      own.copy_(buffers_[i], /*non_blocking=*/device.is_cuda());
    }
  }
}

/// b = b0 + sum of rows_r / rows * (b_r - b0), with b0 that of the first replica that has rows: a buffer that no
/// forward changes keeps its bits. Whole numbers, such as how many batches there were, are those of that replica.
void Replicas::merge_buffers() {
  std::vector<const Replica*> counted;
  int64_t rows = 0;
  for (const auto& replica : replicas_) {
    if (replica->row_count == 0) continue;
    counted.push_back(replica.get());
    rows += replica->row_count;
  }
  if (counted.empty() || replicas_.size() == 1) return;
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const auto first = moved(counted.front()->buffers[i], output_);
    auto merged = first.clone();
    for (const Replica* replica : counted) {
      if (replica == counted.front() || !first.is_floating_point()) continue;
      const double share = static_cast<double>(replica->row_count) / static_cast<double>(rows);
      merged.add_(moved(replica->buffers[i], output_) - first, share);
    }
    buffers_[i].copy_(merged);
  }
}

void Replicas::tell_shapes(const torch::Tensor& input) {
  const auto log = std::exchange(log_, {});
  for (size_t number = 0; number < replicas_.size(); ++number) {
    const auto& replica = *replicas_[number];
    auto in = input.sizes().vec();
    in[0] = replica.row_count;
    log(replica.row_count == 0
            ? concat("replica ", number, ": no rows")
            : concat("replica ", number, ": in ", sizes_text(in), ", out ", sizes_text(replica.output.sizes().vec())));
  }
}

void Replicas::compute_in(const Precision& precision) {
  for (const auto& replica : replicas_) penstock::compute_in(*replica->model, precision);
}

std::vector<ReplicaUse> Replicas::use() {
  std::vector<ReplicaUse> list;
  for (const auto& replica : replicas_) {
    const StepTimes times = replica->recorder.times();
    const double busy_ms =
        times[Phase::kForward] + times[Phase::kBackward] + times[Phase::kCommunication] + times[Phase::kOptimizer];
    list.push_back({replica->device.str(), busy_ms, peak_bytes(replica->device)});
  }
  return list;
}

std::unique_ptr<GradientSync> make_replica_sync(std::shared_ptr<Replicas> replicas) {
  return std::make_unique<ReplicaSync>(std::move(replicas));
}

std::unique_ptr<Update> make_replica_update(const UpdateContext& context, const std::shared_ptr<Replicas>& replicas) {
  const auto count = static_cast<size_t>(replicas->count());
  const auto& traits = OptimizerRegistry::entry(parse_spec("optimizer", context.options.spec).name()).traits;
  if (count == 1 || !traits.steps_in_parts) return make_whole_update(context);
  const auto begins = even_stretches(values(context.trained), count);
  UpdateThreads threads{.parts = {}, .count = count, .run = [replicas](const auto& body) { replicas->update(body); }};
  for (size_t part = 0; part < count; ++part) threads.parts.resize(begins[part + 1], part);
  return make_threaded_update(context, std::move(threads));
}

}  // namespace penstock::detail
