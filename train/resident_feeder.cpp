// Resident feeder: the pixels of the data set stay on the device; only a batch of plans is copied to it in each step.
#include <cstring>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/read_from.h"
#include "train/cuda_device.h"
#include "train/device_render.h"
#include "train/feeder.h"
#include "train/resident_photographs.h"

namespace penstock {
namespace {

/// A loader that renders only one pixel per picture says which samples are in which batch. Order, shuffle, tail, ranks,
/// restarts and corrupt samples are therefore those of a loader by construction. Such a row takes a few hundred
/// nanoseconds.
constexpr const char* kOnePixel = "center-crop(size=1)";

class ResidentFeeder final : public Feeder {
 public:
  ResidentFeeder(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline, const LoaderOptions& options,
                 const torch::Device& device, Recorder& recorder)
      : dataset_(std::move(dataset)),
        pipeline_(pipeline),
        device_(device),
        recorder_(recorder),
        ids_(dataset_, Pipeline(kOnePixel, dataset_->manifest().statistics), options) {
    upload(options);
  }

  void start_epoch(int64_t epoch, int64_t first_batch) override { ids_.start_epoch(epoch, first_batch); }
  int64_t batches_per_epoch() const override { return ids_.batches_per_epoch(); }
  uint64_t samples_per_epoch() const override { return ids_.samples_per_epoch(); }
  LoaderStatistics statistics() const override { return ids_.statistics(); }

  std::optional<DeviceBatch> next() override {
    recorder_.mark(Phase::kOther);
    const auto ids = ids_.next();
    if (!ids) return std::nullopt;
    recorder_.mark(Phase::kWait);
    plan(*ids);
    auto batch = render(*ids);
    recorder_.mark(Phase::kHostToDevice);
    return batch;
  }

 private:
  /// Throws config_error for transforms that the device cannot render. A random draw may leave a transform out, so
  /// several plans are tried; if all of them miss it, the first batch that has it is refused.
  void refuse_what_only_the_host_renders(const Extent& stored) const {
    if (pipeline_.batch_mix().kind != BatchMix::Kind::kNone) {
      throw config_error(
          concat("--resident: the transforms ", pipeline_.text(),
                 " mix rows of a batch, which only the loader on the host can do; expected no mixup and no cutmix"));
    }
    constexpr uint64_t kPlans = 64;
    for (uint64_t id = 0; id < kPlans; ++id) {
      Plan plan = pipeline_.plan(stored.height, stored.width, 0, 0, id);
      plan.color_step_count = pipeline_.color_steps();
      require_device_renders(plan);
    }
  }

  /// Copies this rank's samples to the device, u8 M x H x W x C: all samples, or with rank-local shuffling those of its
  /// shards.
  void upload(const LoaderOptions& options) {
    const auto& manifest = dataset_->manifest();
    if (!manifest.extent) {
      throw config_error(concat(
          "--resident: the pictures of ", dataset_->folder().string(),
          " have several sizes; expected pictures of one size, packed with shardprep pack --encode raw, or JPEGs "
          "packed with --encode coef"));
    }
    const Extent extent = *manifest.extent;
    refuse_what_only_the_host_renders(extent);
    const auto picture_bytes = static_cast<int64_t>(extent.height) * extent.width * extent.channels;
    std::vector<uint64_t> indices;
    for (int shard = 0; shard < dataset_->shard_count(); ++shard) {
      if (options.shuffle == Shuffle::kRankLocal && shard % options.world_size != options.rank) continue;
      for (uint64_t index = dataset_->shard_begin(shard); index < dataset_->shard_begin(shard + 1); ++index)
        indices.push_back(index);
    }
    if (const auto free_bytes = free_device_bytes(device_))
      require_room("", static_cast<int64_t>(indices.size()), static_cast<int64_t>(indices.size()) * picture_bytes,
                   *free_bytes);
    auto pictures = torch::empty({static_cast<int64_t>(indices.size()), extent.height, extent.width, extent.channels},
                                 torch::kUInt8);
    row_of_.reserve(indices.size());
    for (const uint64_t index : indices) {
      const Sample sample = dataset_->at(index);
      if (sample.encoding != Encoding::kRaw || static_cast<int64_t>(sample.bytes.size()) != picture_bytes) {
        throw config_error(concat("--resident: ", dataset_->where(index), " is a ", codec_traits(sample.encoding).name,
                                  " picture; expected raw pixels, as shardprep pack --encode raw stores them, or JPEG "
                                  "coefficients alone (--encode coef)"));
      }
      const auto row = static_cast<int64_t>(row_of_.size());
      read_from(*dataset_, index, [&] {
        std::memcpy(pictures.data_ptr<uint8_t>() + row * picture_bytes, sample.bytes.data(), sample.bytes.size());
      });
      row_of_.emplace(sample.id, row);
    }
    pictures_ = pictures.to(device_);
  }

  void plan(const Batch& ids) {
    const auto& options = ids_.options();
    const Extent& stored = *dataset_->manifest().extent;
    planned_.resize(static_cast<size_t>(ids.count()));
    for (size_t i = 0; i < planned_.size(); ++i) {
      const uint64_t id = ids.ids()[i];
      planned_[i] = {row_of_.at(id), ids.labels()[i], ids.weights()[i],
                     pipeline_.plan(stored.height, stored.width, options.seed, static_cast<uint32_t>(ids.epoch()), id)};
    }
  }

  DeviceBatch render(const Batch& ids) {
    DeviceBatch batch;
    batch.epoch = ids.epoch(), batch.index = ids.index(), batch.first_position = ids.first_position();
    batch.rows = ids.rows(), batch.count = ids.count(), batch.global_count = ids.global_count();
    const Extent& stored = *dataset_->manifest().extent;
    const Plan any = pipeline_.plan(stored.height, stored.width, 0, 0, 0);
    const auto padding = batch.rows - batch.count;
    torch::Tensor images, labels, weights;
    const auto zeros = [&](at::IntArrayRef shape, at::ScalarType dtype) {
      return torch::zeros(shape, torch::dtype(dtype).device(device_));
    };
    if (padding > 0) {
      images = zeros({padding, stored.channels, any.output_height, any.output_width}, torch::kFloat32);
      labels = zeros({padding}, torch::kInt64);
      weights = zeros({padding}, torch::kFloat32);
    }
    if (batch.count > 0) {
      const PlanBatch plans = pack_plans(planned_, stored.channels, device_);
      auto rendered = device_render(pictures_, plans, pipeline_.normalization());
      bool is_substituted = false;
      for (const auto& row : planned_) is_substituted |= row.weight == 0;
      if (is_substituted) rendered.mul_(plans.weights().view({-1, 1, 1, 1}));
      images = padding > 0 ? torch::cat({rendered, images}) : rendered;
      labels = padding > 0 ? torch::cat({plans.labels(), labels}) : plans.labels();
      weights = padding > 0 ? torch::cat({plans.weights(), weights}) : plans.weights();
    }
    batch.images = images, batch.labels = labels, batch.weights = weights;
    return batch;
  }

  std::shared_ptr<const Dataset> dataset_;
  Pipeline pipeline_;
  torch::Device device_;
  Recorder& recorder_;
  Loader ids_;
  torch::Tensor pictures_;
  std::unordered_map<uint64_t, int64_t> row_of_;  // sample id -> row of pictures_
  std::vector<PlannedRow> planned_;
};

}  // namespace

std::unique_ptr<Feeder> make_resident_feeder(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline,
                                             const LoaderOptions& options, const torch::Device& device,
                                             Recorder& recorder) {
  if (const auto example = dataset->example(); example && example->encoding == Encoding::kCoefficients)
    return make_resident_photographs(std::move(dataset), pipeline, options, device, recorder);
  return std::make_unique<ResidentFeeder>(std::move(dataset), pipeline, options, device, recorder);
}

}  // namespace penstock
