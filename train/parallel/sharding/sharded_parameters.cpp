// ShardedParameters: units, and the order of their collectives.
#include "train/parallel/sharding/sharded_parameters.h"

#include <algorithm>
#include <utility>

#include "train/parallel/sharding/reduce_scatter_sync.h"
#include "train/parallel/strategy/buckets.h"
#include "train/tensor/storage.h"

namespace penstock::detail {

std::vector<BlockRange> assign_units(const std::vector<int64_t>& block_bytes, int64_t least_bytes) {
  std::vector<BlockRange> units;
  int64_t bytes = 0;
  size_t first = 0;
  for (size_t block = 0; block < block_bytes.size(); ++block) {
    bytes += block_bytes[block];
    if (bytes < least_bytes) continue;
    units.push_back({first, block + 1});
    first = block + 1;
    bytes = 0;
  }
  if (units.empty()) units.push_back({0, 0});
  units.back().end = block_bytes.size();
  return units;
}

namespace {

/// A bucket of which this rank keeps its slice alone.
ShardedBucket only_slice(const std::vector<torch::Tensor>& parameters, const std::vector<size_t>& members, Comm& comm,
                         int64_t alignment) {
  auto bucket = slice_parameters(parameters, {members}, comm, alignment, /*stay_whole=*/false).front();
  bucket.slice = bucket.slice.clone();
  release_memory(bucket.whole);
  return bucket;
}

/// Notes where the members of the last bucket of a unit lie. `index_of`: what parameter each member is; empty: the one
/// with its number.
void place(ShardedUnits& all, size_t unit, const std::vector<size_t>& members, const std::vector<size_t>& index_of) {
  const size_t bucket = all.units[unit].buckets.size() - 1;
  const auto& offsets = all.units[unit].buckets[bucket].offsets;
  for (size_t k = 0; k < members.size(); ++k)
    all.places[index_of.empty() ? members[k] : index_of[members[k]]] = {unit, bucket, offsets[k]};
}

size_t first_with(const std::vector<std::optional<size_t>>& trained_of_unit) {
  const auto found = std::find_if(trained_of_unit.begin(), trained_of_unit.end(),
                                  [](const auto& trained) { return trained.has_value(); });
  return static_cast<size_t>(found - trained_of_unit.begin());
}

}  // namespace

ShardedUnits make_units(const ModelPart& part, Comm& comm, int64_t alignment) {
  const auto blocks = part.blocks_of_parameters();
  const auto parameters = values(part.parameters()), trained = values(part.trained());
  const auto bytes = bytes_of(parameters);
  std::vector<int64_t> block_bytes(part.block_count(), 0);
  for (size_t i = 0; i < parameters.size(); ++i) block_bytes[blocks[i]] += bytes[i];
  ShardedUnits all;
  for (const auto& range : assign_units(block_bytes)) {
    all.unit_of_block.resize(range.end, all.units.size());
    all.units.push_back({.blocks = range});
  }
  // One entry per unit: indices in `trained` and in `parameters`.
  std::vector<std::vector<size_t>> trained_members(all.units.size()), frozen_members(all.units.size());
  std::vector<size_t> of_trained;  // one entry per trained parameter: its index in `parameters`
  for (size_t i = 0; i < parameters.size(); ++i) {
    const size_t unit = all.unit_of_block[blocks[i]];
    if (parameters[i].requires_grad()) {
      trained_members[unit].push_back(of_trained.size());
      of_trained.push_back(i);
    } else {
      frozen_members[unit].push_back(i);
    }
  }
  all.trained_of_unit.resize(all.units.size());
  all.places.resize(parameters.size());
  for (size_t u = 0; u < all.units.size(); ++u) {
    auto& buckets = all.units[u].buckets;
    if (!trained_members[u].empty()) {
      auto& bucket = buckets.emplace_back(only_slice(trained, trained_members[u], comm, alignment));
      bucket.gradient = torch::zeros_like(bucket.slice);
      all.trained_of_unit[u] = all.trained.size();
      all.trained.push_back(bucket);
      place(all, u, trained_members[u], of_trained);
    }
    if (!frozen_members[u].empty()) {
      buckets.push_back(only_slice(parameters, frozen_members[u], comm, alignment));
      place(all, u, frozen_members[u], {});
    }
  }
  return all;
}

ShardedParameters::ShardedParameters(const ModelPart& part, Comm& comm, Recorder& recorder, const Passes& passes)
    : comm_(comm),
      parameters_(values(part.parameters())),
      all_(make_units(part, comm, passes.alignment)),
      units_(all_.units),
      first_trained_(first_with(all_.trained_of_unit)),
      works_(recorder),
      gradients_(passes.make_gradients
                     ? passes.make_gradients(all_.trained, works_)
                     : std::make_unique<ReduceScatterGradients>(values(part.trained()), all_.trained, comm, works_)),
      pass_count_(passes.count) {}

void ShardedParameters::enter(size_t block) {
  const size_t unit = all_.unit_of_block[block];
  if (block != units_[unit].blocks.first) return;
  has_run_forward_ = true;
  if (is_in_step_)
    enter_unit(unit);
  else
    gather(block);
}

void ShardedParameters::leave(size_t block, const torch::Tensor& output) {
  const size_t unit = all_.unit_of_block[block];
  if (block + 1 != units_[unit].blocks.end) return;
  if (!is_in_step_) return release(unit);
  if (output.requires_grad()) output.register_hook([this, unit](const torch::Tensor&) { back_to(unit); });
  leave_unit(unit);
}

void ShardedParameters::gather(size_t block) {
  auto& unit = units_[all_.unit_of_block[block]];
  unit.is_whole = true;
  for (auto& bucket : unit.buckets) {
    take_memory(bucket.whole);
    comm_.all_gather_into(bucket.whole, bucket.slice)->wait();
  }
}

void ShardedParameters::put_back(size_t block) { release(all_.unit_of_block[block]); }

void ShardedParameters::load(size_t parameter, const torch::Tensor& value) {
  at::NoGradGuard no_grad;
  const auto& place = all_.places[parameter];
  const auto& slice = units_[place.unit].buckets[place.bucket].slice;
  const int64_t slice_begin = comm_.rank() * slice.numel();
  const int64_t begin = std::max(place.offset, slice_begin);
  const int64_t end = std::min(place.offset + value.numel(), slice_begin + slice.numel());
  if (begin >= end) return;
  const auto like = torch::empty_like(parameters_[parameter]).copy_(value);  // with the parameter's strides
  slice.narrow(0, begin - slice_begin, end - begin).copy_(flattened(like).narrow(0, begin - place.offset, end - begin));
}

std::vector<torch::Tensor> ShardedParameters::tensors() const {
  std::vector<torch::Tensor> list;
  for (const auto& unit : units_)
    for (const auto& bucket : unit.buckets) {
      list.push_back(bucket.whole);
      list.push_back(bucket.slice);
    }
  return list;
}

void ShardedParameters::begin() {
  gradients_->reset();
  works_.restart();
  is_in_step_ = true;
  pass_ = 0;
  begin_pass();
}

void ShardedParameters::begin_pass() {
  has_run_forward_ = false;
  backward_unit_ = units_.size();
}

void ShardedParameters::end_pass() {
  // A rank without rows: the others wait for its slices and its zeros.
  if (!has_run_forward_)
    for (size_t unit = 0; unit < units_.size(); ++unit) {
      enter_unit(unit);
      leave_unit(unit);
    }
  if (first_trained_ < units_.size()) {
    back_to(first_trained_);  // without rows, or where a block has parameters that it does not use
    finish_unit(first_trained_);
  }
  release(units_.size() - 1);
  ++pass_;
  begin_pass();
}

void ShardedParameters::finish() {
  while (pass_ < pass_count_) end_pass();  // the passes without rows are the last ones at every rank
  works_.wait_for(works_.count());
  gradients_->finish();
  is_in_step_ = false;
}

void ShardedParameters::enter_unit(size_t unit) {
  gather_in_step(unit);
  if (unit + 1 < units_.size()) start_gather(unit + 1);
}

void ShardedParameters::leave_unit(size_t unit) {
  if (unit + 1 < units_.size()) release(unit);  // backward begins with the last one
}

/// Backward comes to `unit`: it is through with those after it.
void ShardedParameters::back_to(size_t unit) {
  while (backward_unit_ > unit) {
    if (backward_unit_ < units_.size()) finish_unit(backward_unit_);
    gather_in_step(--backward_unit_);
    if (backward_unit_ > first_trained_) start_gather(backward_unit_ - 1);
  }
}

void ShardedParameters::finish_unit(size_t unit) {
  if (const auto trained = all_.trained_of_unit[unit]) gradients_->start(*trained);
  release(unit);
}

void ShardedParameters::start_gather(size_t index) {
  auto& unit = units_[index];
  if (unit.is_whole) return;
  unit.is_whole = true;
  for (auto& bucket : unit.buckets) {
    take_memory(bucket.whole);
    works_.start([&] { return comm_.all_gather_into(bucket.whole, bucket.slice); });
  }
  unit.gather_end = works_.count();
  peak_bytes_ = std::max(peak_bytes_, storage_bytes(tensors()));
}

void ShardedParameters::gather_in_step(size_t index) {
  start_gather(index);
  works_.wait_for(units_[index].gather_end);
}

void ShardedParameters::release(size_t index) {
  auto& unit = units_[index];
  if (!std::exchange(unit.is_whole, false)) return;
  for (const auto& bucket : unit.buckets) release_memory(bucket.whole);
}

namespace {

class ShardSync final : public GradientSync {
 public:
  explicit ShardSync(std::shared_ptr<ShardedParameters> parameters) : parameters_(std::move(parameters)) {}
  void begin() override { parameters_->begin(); }
  void finish() override { parameters_->finish(); }
  void end_backward() override { parameters_->end_pass(); }
  std::vector<torch::Tensor> buffers() const override { return parameters_->gradients().buffers(); }
  int64_t peak_bytes() const override { return parameters_->gradients().peak_bytes(); }

 private:
  std::shared_ptr<ShardedParameters> parameters_;
};

}  // namespace

std::unique_ptr<GradientSync> make_shard_sync(std::shared_ptr<ShardedParameters> parameters) {
  return std::make_unique<ShardSync>(std::move(parameters));
}

}  // namespace penstock::detail
