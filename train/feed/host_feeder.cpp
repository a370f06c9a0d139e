// Host feeder: a loader's slots as tensors. On the CPU they are used in place; on CUDA they are copied one batch ahead,
// on a stream of its own.
//
//   copy stream      [copy k+1]        [copy k+2]
//   compute stream   [ step k ........][ step k+1 ......]
//   host             wait k+1, launch step k, wait k+2, launch step k+1, ...
#include "train/feed/host_feeder.h"

#ifdef PENSTOCK_HAS_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include <array>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/mutex.h"
#include "core/text.h"
#include "train/feed/feeder.h"
#include "train/tensor/batch_tensors.h"

namespace penstock {
namespace {

/// Views of the slot, valid as long as the batch is held. Throws config_error for a layout that models do not take.
DeviceBatch view_of(Batch& batch) {
  if (batch.layout() != Layout::kF32Nchw && batch.layout() != Layout::kU8Nhwc)
    throw config_error(concat("feeder: batches of layout ", layout_name(batch.layout()), "; expected f32 or u8"));
  DeviceBatch view;
  view.epoch = batch.epoch(), view.index = batch.index();
  view.rows = batch.rows(), view.count = batch.count(), view.global_count = batch.global_count();
  view.corrupt_count = batch.corrupt_count();
  view.first_position = batch.first_position();
  BatchTensors tensors = view_tensors(batch);
  view.images = tensors.images, view.labels = tensors.labels, view.weights = tensors.weights;
  view.second_labels = tensors.second_labels, view.mix_weights = tensors.mix_weights;
  view.columns = std::move(tensors.columns);
  return view;
}

/// u8 N x H x W x C -> f32 N x C x H x W, normalised as render() does it. Padding rows become the normalised value of
/// level 0, which does no harm because their weight is 0.
class DeviceNormalization {
 public:
  DeviceNormalization(const Normalization& normalization, int channels, const torch::Device& device) {
    const auto per_channel = [&](const PerChannel<float>& values) {
      return torch::tensor(at::ArrayRef<float>(values.data(), static_cast<size_t>(channels)), torch::device(device))
          .view({1, channels, 1, 1});
    };
    scale_ = per_channel(normalization.scale);
    bias_ = per_channel(normalization.bias);
  }

  torch::Tensor operator()(const torch::Tensor& images) const {
    if (images.scalar_type() != torch::kUInt8) return images;
    return (images.permute({0, 3, 1, 2}).to(torch::kFloat32, false, false, at::MemoryFormat::Contiguous) * scale_)
        .add_(bias_);
  }

 private:
  torch::Tensor scale_, bias_;
};

class HostFeeder : public Feeder {
 public:
  HostFeeder(std::unique_ptr<Loader> loader, const Normalization& normalization, const torch::Device& device,
             Recorder& recorder)
      : loader_(std::move(loader)),
        recorder_(recorder),
        normalize_(normalization, loader_->extent().channels, device) {}

  int64_t batches_per_epoch() const override { return loader_->batches_per_epoch(); }
  uint64_t samples_per_epoch() const override { return loader_->samples_per_epoch(); }
  LoaderStatistics statistics() const override { return loader_->statistics(); }

 protected:
  std::optional<Batch> wait_for_batch() {
    recorder_.mark(Phase::kOther);
    auto batch = loader_->next();
    recorder_.mark(Phase::kWait);
    return batch;
  }

  std::unique_ptr<Loader> loader_;
  Recorder& recorder_;
  DeviceNormalization normalize_;
};

class CpuFeeder final : public HostFeeder {
 public:
  using HostFeeder::HostFeeder;

  void start_epoch(int64_t epoch, int64_t first_batch) override {
    held_.reset();
    loader_->start_epoch(epoch, first_batch);
  }

  std::optional<DeviceBatch> next() override {
    held_.reset();
    held_ = wait_for_batch();
    if (!held_) return std::nullopt;
    auto batch = view_of(*held_);
    batch.images = normalize_(batch.images);
    return batch;
  }

 private:
  std::optional<Batch> held_;
};

#ifdef PENSTOCK_HAS_CUDA

class CudaFeeder final : public HostFeeder {
 public:
  CudaFeeder(std::unique_ptr<Loader> loader, const Normalization& normalization, const torch::Device& device,
             Recorder& recorder)
      : HostFeeder(std::move(loader), normalization, device, recorder),
        device_(device),
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {}

  ~CudaFeeder() override {
    try {
      stream_.synchronize();
    } catch (const std::exception&) {  // the device failed earlier, and that error is already being thrown
    }
  }

  void start_epoch(int64_t epoch, int64_t first_batch) override {
    stream_.synchronize();
    for (auto& place : places_) place.batch.reset();
    is_started_ = false;
    loader_->start_epoch(epoch, first_batch);
  }

  std::optional<DeviceBatch> next() override {
    if (!is_started_) stage(places_[taken_]);
    is_started_ = true;
    DeviceSlot& place = places_[taken_];
    if (!place.batch) return std::nullopt;
    // The step of the previous batch has been launched. When the device has finished it, its tensors may be
    // overwritten.
    DeviceSlot& other = places_[1 - taken_];
    other.used.record(c10::cuda::getCurrentCUDAStream(device_.index()));
    stage(other);
    place.copied.block(c10::cuda::getCurrentCUDAStream(device_.index()));
    recorder_.mark(Phase::kHostToDevice);  // the rest of the copy, after the previous step has finished
    taken_ = 1 - taken_;
    auto batch = place.tensors;
    batch.images = normalize_(batch.images);
    return batch;
  }

 private:
  /// A batch on the device and the slot that it comes from.
  struct DeviceSlot {
    std::optional<Batch> batch;
    DeviceBatch tensors;
    at::cuda::CUDAEvent copied, used;
  };

  void stage(DeviceSlot& place) {
    if (place.batch) place.copied.synchronize();  // the copy ended long ago, so the slot may go back
    place.batch.reset();
    place.batch = wait_for_batch();
    if (!place.batch) return;
    const DeviceBatch source = view_of(*place.batch);
    const c10::cuda::CUDAStreamGuard guard(stream_);
    place.used.block(stream_);
    DeviceBatch before = place.tensors;
    place.tensors = source;
    for (const auto member : {&DeviceBatch::images, &DeviceBatch::labels, &DeviceBatch::weights,
                              &DeviceBatch::second_labels, &DeviceBatch::mix_weights})
      if ((source.*member).defined()) place.tensors.*member = copied(source.*member, before.*member);
    for (auto& [name, tensor] : place.tensors.columns) tensor = copied(tensor, before.columns[name]);
    place.copied.record(stream_);
  }

  torch::Tensor copied(const torch::Tensor& source, torch::Tensor target) const {
    if (!target.defined() || target.sizes() != source.sizes())  // a size schedule has other pictures in later epochs
      target = torch::empty(source.sizes(), source.options().device(device_));
    return target.copy_(source, /*non_blocking=*/true);
  }

  torch::Device device_;
  c10::cuda::CUDAStream stream_;
  std::array<DeviceSlot, 2> places_;
  int taken_ = 0;
  bool is_started_ = false;
};

#endif

/// Pinned memory by its address. The tensors own it; the loader releases it by the pointer.
struct PinnedPool {
  Mutex mutex;
  std::map<void*, torch::Tensor> tensors PENSTOCK_GUARDED_BY(mutex);
};

/// Null if no more memory can be locked; the loader then reports for what and how much.
void* allocate_pinned(size_t byte_count, PinnedPool& pool) {
  try {
    auto memory = torch::empty({static_cast<int64_t>(byte_count)}, torch::dtype(torch::kUInt8).pinned_memory(true));
    void* const data = memory.data_ptr();
    const MutexLock lock(pool.mutex);
    pool.tensors.emplace(data, std::move(memory));
    return data;
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

SlotAllocator pinned_slots() {
  const auto pool = std::make_shared<PinnedPool>();  // shared by both functions, as long as the loader keeps them
  return {[pool](size_t byte_count) { return allocate_pinned(byte_count, *pool); },
          [pool](void* data, size_t) {
            const MutexLock lock(pool->mutex);
            pool->tensors.erase(data);
          }};
}

std::unique_ptr<Feeder> make_host_feeder(std::unique_ptr<Loader> loader, const torch::Device& device,
                                         Recorder& recorder, const Normalization& normalization) {
  if (device.is_cpu()) return std::make_unique<CpuFeeder>(std::move(loader), normalization, device, recorder);
#ifdef PENSTOCK_HAS_CUDA
  return std::make_unique<CudaFeeder>(std::move(loader), normalization, device, recorder);
#else
  throw device_error("--device " + device.str() + ": this build has no CUDA; expected --device cpu");
#endif
}

}  // namespace penstock
