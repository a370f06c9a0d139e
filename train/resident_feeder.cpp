// Resident feeder: the pixels of the data set stay on the device; only plans are copied to it, in each step those of a
// batch, or for a captured step those of many batches at once.
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
#include "train/plans_ahead.h"
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
                 const torch::Device& device, Recorder& recorder, const ResidentRoom& room)
      : dataset_(std::move(dataset)),
        pipeline_(pipeline),
        device_(device),
        recorder_(recorder),
        normalization_(pipeline.normalization(), dataset_->manifest().channels, device),
        ids_(dataset_, Pipeline(kOnePixel, dataset_->manifest().statistics), options) {
    upload(options, room);
  }

  void start_epoch(int64_t epoch, int64_t first_batch) override {
    ahead_ ? ahead_->start_epoch(epoch, first_batch) : ids_.start_epoch(epoch, first_batch);
  }
  int64_t batches_per_epoch() const override { return ids_.batches_per_epoch(); }
  uint64_t samples_per_epoch() const override { return ids_.samples_per_epoch(); }
  LoaderStatistics statistics() const override { return ids_.statistics(); }

  bool leave_making() override {
    if (!others_.empty()) return false;  // they come from the host
    const int channels = dataset_->manifest().channels;
    ahead_.emplace(
        ids_, [this](const Batch& ids, std::vector<PlannedRow>& rows) { plan(ids, rows); }, channels, device_);
    at_hand_ = make_room_for_plans(ids_.options().batch_size, channels, torch::kCPU);
    at_hand_.rows = at_hand_.rows.to(device_);
    return true;
  }

  std::optional<DeviceBatch> next() override {
    recorder_.mark(Phase::kOther);
    auto batch = ahead_ ? next_of_ahead() : next_of_host();
    if (batch) recorder_.mark(Phase::kHostToDevice);
    return batch;
  }

  void make(DeviceBatch& batch) override {
    PlanBatch plans = at_hand_;
    plans.rows = at_hand_.rows.narrow(0, 0, batch.count);
    render(plans, batch);
  }
  int64_t kind_of_making() const override {
    const auto& needs = at_hand_.needs;
    return int64_t{needs.is_nearest} | int64_t{needs.is_bilinear} << 1 | int64_t{needs.is_recolored} << 2 |
           int64_t{needs.is_substituted} << 3 | int64_t{needs.erased_count} << 4;
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
  /// shards. Of those that do not fit, `others_` has the indices.
  void upload(const LoaderOptions& options, const ResidentRoom& room) {
    const auto& manifest = dataset_->manifest();
    if (!manifest.extent) {
      throw config_error(concat(
          "--resident: the pictures of ", dataset_->folder().string(),
          " have several sizes; expected pictures of one size, packed with shardprep pack --encode raw, or JPEGs "
          "packed with --encode coef"));
    }
    const Extent extent = *manifest.extent;
    refuse_what_only_the_host_renders(extent);
    picture_bytes_ = static_cast<int64_t>(extent.height) * extent.width * extent.channels;
    std::vector<uint64_t> indices;
    for (int shard = 0; shard < dataset_->shard_count(); ++shard) {
      if (options.shuffle == Shuffle::kRankLocal && shard % options.world_size != options.rank) continue;
      for (uint64_t index = dataset_->shard_begin(shard); index < dataset_->shard_begin(shard + 1); ++index)
        indices.push_back(index);
    }
    resident_count_ = count_that_stay(static_cast<int64_t>(indices.size()), options.batch_size, room);
    others_.assign(indices.begin() + resident_count_, indices.end());
    auto pictures = torch::empty({resident_count_, extent.height, extent.width, extent.channels}, torch::kUInt8);
    row_of_.reserve(indices.size());
    for (const uint64_t index : indices) {
      const auto row = static_cast<int64_t>(row_of_.size());
      row_of_.emplace(raw_sample(index).id, row);
      if (row < resident_count_) read_pixels(index, pictures.data_ptr<uint8_t>() + row * picture_bytes_);
    }
    if (others_.empty()) {
      pictures_ = pictures.to(device_);
      return;
    }
    auto sizes = pictures.sizes().vec();
    sizes[0] += options.batch_size;
    pictures_ = torch::empty(sizes, torch::dtype(torch::kUInt8).device(device_));
    pictures_.narrow(0, 0, resident_count_).copy_(pictures);
  }

  /// All `count` pictures, or as many as fit beside those of a batch that come from the host.
  int64_t count_that_stay(int64_t count, int64_t batch_size, const ResidentRoom& room) const {
    const auto free_bytes = room.free_bytes ? room.free_bytes : free_device_bytes(device_);
    if (!free_bytes) return count;
    const int64_t fit = pictures_that_fit(count, count * picture_bytes_, *free_bytes);
    if (fit == count) return count;
    if (fit < 2 * batch_size) require_room("", count, count * picture_bytes_, *free_bytes);
    const int64_t stay = fit - batch_size;
    if (room.say)
      room.say(share_text("", count, count * picture_bytes_, *free_bytes, stay) +
               "the others are copied with their batches");
    return stay;
  }

  /// Throws config_error if it is not stored as raw pixels.
  Sample raw_sample(uint64_t index) const {
    const Sample sample = dataset_->at(index);
    if (sample.encoding != Encoding::kRaw || static_cast<int64_t>(sample.bytes.size()) != picture_bytes_) {
      throw config_error(concat("--resident: ", dataset_->where(index), " is a ", codec_traits(sample.encoding).name,
                                " picture; expected raw pixels, as shardprep pack --encode raw stores them, or JPEG "
                                "coefficients alone (--encode coef)"));
    }
    return sample;
  }

  void read_pixels(uint64_t index, uint8_t* to) const {
    const Sample sample = dataset_->at(index);
    read_from(*dataset_, index, [&] { std::memcpy(to, sample.bytes.data(), sample.bytes.size()); });
  }

  /// Copies the pictures of the batch that do not stay on the device behind those that do, in the order of its rows.
  void copy_others(const Batch& ids) {
    if (others_.empty()) return;
    std::vector<uint64_t> missing;
    for (int64_t row = 0; row < ids.count(); ++row)
      if (const int64_t at = row_of_.at(ids.ids()[static_cast<size_t>(row)]); at >= resident_count_)
        missing.push_back(others_[static_cast<size_t>(at - resident_count_)]);
    if (missing.empty()) return;
    const auto target = pictures_.narrow(0, resident_count_, static_cast<int64_t>(missing.size()));
    const auto host = torch::empty(target.sizes(), torch::dtype(torch::kUInt8).pinned_memory(device_.is_cuda()));
    uint8_t* to = host.data_ptr<uint8_t>();
    for (const uint64_t index : missing) {
      read_pixels(index, to);
      to += picture_bytes_;
    }
    target.copy_(host, /*non_blocking=*/true);
  }

  std::optional<DeviceBatch> next_of_host() {
    const auto ids = ids_.next();
    if (!ids) return std::nullopt;
    recorder_.mark(Phase::kWait);
    plan(*ids, planned_);
    copy_others(*ids);
    DeviceBatch batch;
    batch.epoch = ids->epoch(), batch.index = ids->index(), batch.first_position = ids->first_position();
    batch.rows = ids->rows(), batch.count = ids->count(), batch.global_count = ids->global_count();
    PlanBatch plans;
    if (batch.count > 0) plans = pack_plans(planned_, dataset_->manifest().channels, device_);
    render(plans, batch);
    return batch;
  }

  /// Copies the batch's plans to where make() reads them in every step.
  std::optional<DeviceBatch> next_of_ahead() {
    auto planned = ahead_->next();
    if (!planned) return std::nullopt;
    recorder_.mark(Phase::kWait);
    at_hand_.rows.narrow(0, 0, planned->batch.count).copy_(planned->plans.rows, /*non_blocking=*/true);
    at_hand_.output = planned->plans.output, at_hand_.needs = planned->plans.needs;
    return planned->batch;
  }

  void plan(const Batch& ids, std::vector<PlannedRow>& rows) const {
    const auto& options = ids_.options();
    const Extent& stored = *dataset_->manifest().extent;
    rows.resize(static_cast<size_t>(ids.count()));
    int64_t copied = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint64_t id = ids.ids()[i];
      const int64_t row = row_of_.at(id);
      rows[i] = {row < resident_count_ ? row : resident_count_ + copied++, ids.labels()[i], ids.weights()[i],
                 pipeline_.plan(stored.height, stored.width, options.seed, static_cast<uint32_t>(ids.epoch()), id)};
    }
  }

  /// Sets the tensors of the batch, whose first `count` rows have these plans.
  void render(const PlanBatch& plans, DeviceBatch& batch) const {
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
      const auto rendered = device_render(pictures_, plans, normalization_);
      images = padding > 0 ? torch::cat({rendered, images}) : rendered;
      labels = padding > 0 ? torch::cat({plans.labels(), labels}) : plans.labels();
      weights = padding > 0 ? torch::cat({plans.weights(), weights}) : plans.weights();
    }
    batch.images = images, batch.labels = labels, batch.weights = weights;
  }

  std::shared_ptr<const Dataset> dataset_;
  Pipeline pipeline_;
  torch::Device device_;
  Recorder& recorder_;
  DeviceNormalization normalization_;
  Loader ids_;
  int64_t picture_bytes_ = 0, resident_count_ = 0;
  torch::Tensor pictures_;  // those that stay here, and behind them room for the others of a batch
  std::unordered_map<uint64_t, int64_t> row_of_;  // sample id -> row of pictures_, if it is below resident_count_
  std::vector<uint64_t> others_;                  // indices of the samples that do not stay, in the order of row_of_
  std::vector<PlannedRow> planned_;
  PlanBatch at_hand_;  // where make() reads the plans; the memory is the same in every step
  std::optional<PlansAhead>
      ahead_;  // none: batches are planned one by one; the last member: its thread uses the others
};

}  // namespace

std::unique_ptr<Feeder> make_resident_feeder(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline,
                                             const LoaderOptions& options, const torch::Device& device,
                                             Recorder& recorder, const ResidentRoom& room) {
  if (const auto example = dataset->example(); example && example->encoding == Encoding::kCoefficients)
    return make_resident_photographs(std::move(dataset), pipeline, options, device, recorder, room);
  return std::make_unique<ResidentFeeder>(std::move(dataset), pipeline, options, device, recorder, room);
}

}  // namespace penstock
