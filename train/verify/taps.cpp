// Taps: wraps around blocks, hooks of autograd, and a file per rank.
#include "train/verify/taps.h"

#include <torch/csrc/autograd/autograd.h>

#include "core/text.h"
#include "train/nn/row_draws.h"
#include "train/parallel/strategy/model_part.h"
#include "train/tensor/storage.h"
#include "train/tensor/tensor_file.h"

namespace penstock {
namespace {

std::filesystem::path file_of(const std::filesystem::path& to, int rank) { return concat(to.string(), ".taps", rank); }

/// A gradient as one dimension, in the order of the parameter's memory.
torch::Tensor flat_as(const torch::Tensor& parameter, const torch::Tensor& gradient) {
  return detail::flattened(
      torch::empty_strided(parameter.sizes(), parameter.strides(), gradient.options()).copy_(gradient));
}

constexpr char kSeparator = '|';  // between the fields of a record, which are its name in a file

}  // namespace

void Taps::attach(Model& model) {
  auto attached = std::make_shared<Attached>();
  for (const auto& named : {model.named_parameters(), model.named_buffers()})
    for (const auto& item : named) attached->blocks[item.key()] = detail::block_of(model, item.key());
  attached_.push_back(attached);
  model.wrap_blocks([&](size_t block, Model::BlockForward forward) -> Model::BlockForward {
    return [this, attached, &model, block, forward = std::move(forward)](const torch::Tensor& x) {
      return run(attached, model, block, forward, x);
    };
  });
}

void Taps::begin_step(int64_t step, Model& model, const Loss& loss, const DeviceBatch& batch) {
  step_ = step;
  records_ = false;
  for (const auto& cut : plan_.cuts)
    if (cut.step == step) add_cut(model, loss, batch, cut);
  records_ = plan_.first_step <= step && step < plan_.end_step;
  for (const auto& attached : attached_) {
    attached->forwards.clear();
    attached->outputs.clear();
    attached->rows = {};
  }
}

torch::Tensor Taps::run(const std::shared_ptr<Attached>& attached, Model& model, size_t block,
                        const Model::BlockForward& forward, const torch::Tensor& x) {
  if (!RowScope::has_rows()) return forward(x);
  begin("forward", "output of " + model.blocks()[block].name);
  if (records_) start_block(attached, model, block);
  auto y = forward(x);
  if (y.requires_grad())
    y.register_hook(
        [this, name = model.blocks()[block].name](const torch::Tensor&) { begin("backward", "gradients of " + name); });
  if (records_) see_output(attached, model, block, y);
  return y;
}

/// Called by autograd's threads and those of replicas, too.
void Taps::begin(const std::string& operation, const std::string& tensor) {
  const MutexLock lock(mutex_);
  progress_.begin(operation, tensor);
}

/// Hooks are made here and not by attach(), so that they run after all others and see what is added in the end.
void Taps::start_block(const std::shared_ptr<Attached>& attached, Model& model, size_t block) {
  const auto [found, is_new] = attached->started.try_emplace(block, -1);
  if (std::exchange(found->second, step_) == step_) return;
  for (const auto& named : {model.named_parameters(), model.named_buffers()})
    for (const auto& item : named)
      if (attached->blocks.at(item.key()) == block)
        add(TapPoint::kStart, block, item.key(), {0, item.value().numel()}, detail::flattened(item.value().detach()));
  for (const auto& item : model.named_parameters()) {
    const auto& [name, parameter] = item.pair();
    if (attached->blocks.at(name) != block || !parameter.requires_grad() || !attached->hooked.insert(name).second)
      continue;
    parameter.register_hook([this, attached = attached.get(), block, name = name,
                             parameter = parameter.detach()](const torch::Tensor& gradient) {
      const Rows rows = weight_rows_.count > 0 ? weight_rows_ : attached->rows;
      if (!records_ || !gradient.defined() || rows.count == 0) return;
      const at::NoGradGuard no_grad;
      add(TapPoint::kContribution, block, name, rows, flat_as(parameter, gradient));
    });
  }
}

void Taps::see_output(const std::shared_ptr<Attached>& attached, const Model& model, size_t block,
                      const torch::Tensor& y) {
  if (y.size(0) == 0) return;  // a rank without rows, which runs for the statistics of BatchNorm
  const Rows rows{static_cast<int64_t>(RowScope::rows()->first_position), y.size(0)};
  const std::string name = model.blocks()[block].name;
  const bool is_first = attached->forwards.insert({block, rows.first}).second;
  add(is_first ? TapPoint::kForward : TapPoint::kRecompute, block, name, rows, y.detach());
  if (!y.requires_grad()) return;
  // A backward in two halves may come by twice; both see the same.
  y.register_hook([this, attached = attached.get(), block, name, rows](const torch::Tensor& gradient) {
    if (!records_ || !gradient.defined()) return;
    attached->rows = rows;
    if (attached->outputs.insert({block, rows.first}).second)
      add(TapPoint::kOutputGradient, block, name, rows, gradient);
  });
}

/// Requires that the rows of a batch do not depend on each other.
void Taps::add_cut(Model& model, const Loss& loss, const DeviceBatch& batch, const TapCut& cut) {
  model.train(cut.count > 1);
  const auto rows = batch.narrow(cut.first - static_cast<int64_t>(batch.first_position), cut.count);
  const RowScope scope(BatchRows{0, batch.epoch, rows.first_position});
  const auto sum = (loss.of_rows(model.forward(rows.images), rows) * rows.weights).sum();
  NamedTensors trained;
  for (const auto& item : model.named_parameters())
    if (item.value().requires_grad()) trained.emplace_back(item.key(), item.value());
  const auto gradients = torch::autograd::grad({sum}, values(trained),
                                               {torch::full_like(sum, 1.0 / static_cast<double>(batch.global_count))},
                                               /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
  for (size_t i = 0; i < trained.size(); ++i)
    if (gradients[i].defined())
      add(TapPoint::kContribution, detail::block_of(model, trained[i].first), trained[i].first, {cut.first, cut.count},
          flat_as(trained[i].second, gradients[i]));
}

void Taps::before_weight_gradient(uint64_t first_position, int64_t row_count) {
  weight_rows_ = {static_cast<int64_t>(first_position), row_count};
}

void Taps::after_sum(const NamedTensors& trained, detail::Update& update) {
  begin("update");
  if (!records_) return;
  for (const auto& piece : update.pieces(values(trained)))
    if (piece.gradient.defined())
      add(TapPoint::kSum, attached_.front()->blocks.at(trained[piece.parameter].first), trained[piece.parameter].first,
          {piece.first, piece.gradient.numel()}, piece.gradient);
}

void Taps::after_update(const NamedTensors& trained, detail::Update& update) {
  begin("gather");
  if (!records_) return;
  for (const auto& piece : update.pieces(values(trained)))
    if (piece.value.defined())
      add(TapPoint::kUpdate, attached_.front()->blocks.at(trained[piece.parameter].first),
          trained[piece.parameter].first, {piece.first, piece.value.numel()}, piece.value);
}

void Taps::after_share(const NamedTensors& trained, const NamedTensors& buffers) {
  if (!records_) return;
  add_whole(TapPoint::kShare, trained);
  add_whole(TapPoint::kShare, buffers);
}

void Taps::add_whole(TapPoint point, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors)
    if (tensor.numel() == 0 || tensor.storage().nbytes() > 0)
      add(point, attached_.front()->blocks.at(name), name, {0, tensor.numel()}, detail::flattened(tensor.detach()));
}

void Taps::add(TapPoint point, size_t block, const std::string& name, Rows rows, const torch::Tensor& value) {
  auto copy = value.detach().to(torch::kCPU, value.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  const MutexLock lock(mutex_);
  all_.push_back({step_, point, rank_, block, name, rows.first, rows.count, std::move(copy)});
}

void Taps::write(const std::filesystem::path& to) const {
  std::map<std::string, torch::Tensor> tensors;
  const MutexLock lock(mutex_);
  for (const auto& one : all_) {
    std::vector<std::string> fields;
    for (const int64_t number : {one.step, static_cast<int64_t>(one.point), static_cast<int64_t>(one.block), one.first,
                                 one.count, static_cast<int64_t>(tensors.size())})
      fields.push_back(std::to_string(number));
    fields.push_back(one.name);
    tensors[join(fields, std::string(1, kSeparator))] = one.value.contiguous();
  }
  write_tensors(file_of(to, rank_), tensors);
}

TapRecords read_taps(const std::filesystem::path& to, int ranks) {
  TapRecords records;
  for (int rank = 0; rank < ranks; ++rank)
    for (const auto& [key, tensor] : read_tensors(file_of(to, rank)).tensors) {
      const auto fields = split(key, kSeparator);
      records.push_back({std::stoll(fields[0]), static_cast<TapPoint>(std::stoi(fields[1])), rank,
                         std::stoul(fields[2]), fields[6], std::stoll(fields[3]), std::stoll(fields[4]), tensor});
    }
  return records;
}

}  // namespace penstock
