// Resident feeder: the pictures stay on the device; only plans are copied to it, those of many batches at once, and the
// rows of pictures that did not fit.
#include "train/resident/resident_feeder.h"

#include <utility>

#include "augment/plan/resampling.h"
#include "core/error.h"
#include "core/text.h"
#include "train/resident/batch_planner.h"
#include "train/resident/device_kernels.h"
#include "train/resident/host_fallback.h"
#include "train/resident/plan_prefetcher.h"
#include "train/tensor/batch_tensors.h"

namespace penstock {
namespace {

class ResidentFeeder final : public Feeder {
 public:
  ResidentFeeder(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline, const LoaderOptions& options,
                 const torch::Device& device, Recorder& recorder, const ResidentRoom& room)
      : dataset_(std::move(dataset)),
        pipeline_(checked(pipeline)),
        options_(options),
        device_(device),
        recorder_(recorder),
        order_(*dataset_, options),
        rows_(order_.partition().rows_per_rank()),
        kernels_(kernels_for(*dataset_, pipeline_, device)),
        pictures_(*dataset_, pipeline_, options_, rows_, device, room),
        shape_{.rows = static_cast<int>(rows_),
               .output = pictures_.row_extent(),
               .normalization = pipeline_.normalization(),
               .layout = options.layout},
        status_(torch::zeros({rows_}, torch::dtype(torch::kInt32).device(device))),
        refused_count_(torch::zeros({}, torch::dtype(torch::kInt64).device(device))),
        planner_(*dataset_, pictures_, pipeline_, order_, options_),
        ahead_(
            {.batches_per_epoch = batches_per_epoch(),
             .batch_bytes = batch_plan_bytes(rows_),
             .epoch_count = options.epoch_count},
            [this](int64_t epoch, int64_t index, std::byte* to) { return planner_.plan(epoch, index, to); }, device) {
    if (!options_.views.empty())
      throw config_error("--resident: views are made by a loader; expected neither of the two, or one");
    if (!options_.size_schedule.empty())
      throw config_error(
          concat("--resident: the size schedule ", options_.size_schedule,
                 " changes the size of pictures, for which no kernels are prepared; expected one of the two"));
    if (!pictures_.are_all_here() && options_.on_corrupt == OnCorrupt::kSubstitute)
      throw config_error(
          "--resident with --on-corrupt substitute: not all pictures fit on the device, and a substitute may be one of "
          "those that do not; expected --on-corrupt mask");
    if (!options_.columns.empty())
      throw config_error(concat("--resident: the columns ", options_.columns,
                                " are made by the loader on the host; expected none of them"));
    kernels_->load();  // an error of the compiler is one of the start
    if (!pictures_.are_all_here())
      host_.emplace(dataset_, pipeline_, options_, [this](uint64_t index) { return !pictures_[index].is_on_host(); });
  }

  void start_epoch(int64_t epoch, int64_t first_batch) override {
    refuse_corrupt_rows();
    ahead_.start_epoch(epoch, first_batch);
    if (host_) host_->start_epoch(epoch, first_batch);
  }
  int64_t batches_per_epoch() const override { return order_.partition().batch_count(); }
  uint64_t samples_per_epoch() const override { return order_.partition().sample_count(); }
  LoaderStatistics statistics() const override { return host_ ? host_->statistics() : LoaderStatistics(); }

  /// Coefficients ask for other numbers of blocks in every batch.
  bool defer_rendering() override {
    if (host_ || !pictures_.are_all_raw()) return false;
    at_hand_.bytes = torch::empty({batch_plan_bytes(rows_)}, torch::dtype(torch::kUInt8).device(device_));
    leaves_making_ = true;
    return true;
  }

  std::optional<DeviceBatch> next() override {
    recorder_.mark(Phase::kOther);
    auto planned = ahead_.next();
    if (!planned) {
      if (host_) host_->next();  // nothing: its loader is at the next epoch then
      refuse_corrupt_rows();
      return std::nullopt;
    }
    const Batch* const from_host = host_ ? host_->next() : nullptr;
    recorder_.mark(Phase::kWait);
    make_room(planned->needs.scratch_bytes);
    if (leaves_making_) {
      at_hand_.bytes.copy_(planned->bytes, /*non_blocking=*/true);
      // Kernels that a batch has needed stay, so that the kind of step changes twice at most but for make_room().
      at_hand_.needs.weighs |= planned->needs.weighs, at_hand_.needs.recolors |= planned->needs.recolors;
    } else {
      make(*planned, planned->batch);
      if (from_host) take_host_rows(*from_host, planned->host_rows, planned->batch);
    }
    recorder_.mark(Phase::kHostToDevice);
    return planned->batch;
  }

  void make(DeviceBatch& batch) override { make(at_hand_, batch); }
  int64_t render_variant() const override {
    return int64_t{at_hand_.needs.weighs} | int64_t{at_hand_.needs.recolors} << 1 | scratch_count_ << 2;
  }

 private:
  static const Pipeline& checked(const Pipeline& pipeline) {
    if (!pipeline.boxes_field().empty())
      throw config_error(concat("--resident: the transforms ", pipeline.text(), " look at the field ",
                                in_quotes(pipeline.boxes_field()),
                                ", which only the loader on the host reads; expected no random-iou-crop"));
    if (pipeline.makes_noise())
      throw config_error(concat("--resident: the transforms ", pipeline.text(),
                                " erase with noise, which only the loader on the host makes; expected erase(value=V)"));
    if (pipeline.mixes_chains())
      throw config_error(concat("--resident: the transforms ", pipeline.text(),
                                " have aug-mix, which only the loader on the host does; expected none"));
    if (pipeline.batch_mix().kind == BatchMix::Kind::kNone) return pipeline;
    throw config_error(
        concat("--resident: the transforms ", pipeline.text(),
               " mix rows of a batch, which only the loader on the host can do; expected no mixup and no cutmix"));
  }

  /// The kernels that an example of the pictures needs are compiled while the pictures are copied.
  static std::unique_ptr<DeviceKernels> kernels_for(const Dataset& dataset, const Pipeline& pipeline,
                                                    const torch::Device& device) {
    auto kernels = make_device_kernels(device);
    const auto example = dataset.example();
    if (!example) return kernels;
    const bool decodes = example->encoding == Encoding::kCoefficients;
    const Plan plan = pipeline.plan(example->extent.height, example->extent.width, 0, 0, example->id);
    kernels->prepare(kernel_launches({.rows = 1, .output = {1, 1, 1}, .normalization = {}},
                                     {.weighs = resampling_of(plan).kind == Resampling::Kind::kFiltered,
                                      .recolors = pipeline.color_steps() > 0,
                                      .group_count = uint64_t{decodes},
                                      .tile_count = uint64_t{decodes}}));
    return kernels;
  }

  /// With a graph, whose steps are captured anew after it, there is room for twice as much as was asked for.
  void make_room(uint64_t scratch_bytes) {
    const auto wanted = static_cast<int64_t>(scratch_bytes);
    if (scratch_.numel() >= wanted) return;
    scratch_ = torch::Tensor();  // before the larger one is allocated
    scratch_ =
        torch::empty({leaves_making_ ? 2 * wanted : wanted + wanted / 4}, torch::dtype(torch::kUInt8).device(device_));
    ++scratch_count_;
  }

  /// Sets the tensors of the batch. Rows without a sample, and those of the host, become 0.
  void make(const PlannedBatch& planned, DeviceBatch& batch) {
    const auto& [height, width, channels] = shape_.output;
    batch.labels = planned_labels(planned.bytes, rows_);
    batch.weights = planned_weights(planned.bytes, rows_);
    batch.images = torch::empty({rows_, channels, height, width},
                                torch::dtype(detail::scalar_type_of(dtype_of(shape_.layout))).device(device_));
    DeviceAddresses addresses = pictures_.addresses();
    addresses.jobs = planned.bytes.data_ptr(), addresses.scratch = scratch_.data_ptr();
    addresses.output = batch.images.data_ptr();
    addresses.status = reinterpret_cast<uint32_t*>(status_.data_ptr<int32_t>());
    if (!pictures_.are_all_raw()) status_.zero_();
    kernels_->run(kernel_launches(shape_, planned.needs), kernel_arguments(shape_, addresses));
    if (!pictures_.are_all_raw()) refused_count_.add_(status_.sum());
  }

  /// The loader finds out here which of its samples are corrupt.
  void take_host_rows(const Batch& from, const std::vector<int64_t>& rows, DeviceBatch& batch) {
    host_->copy(rows, batch.images);
    batch.corrupt_count += from.corrupt_count();
    for (const int64_t row : rows)
      if (from.weights()[static_cast<size_t>(row)] == 0) batch.weights[row] = 0;
  }

  /// Checked once per epoch, because it waits for the device. Checksums were right when the coefficients were copied,
  /// so that a store can only be refused when the device's memory has changed since.
  void refuse_corrupt_rows() {
    if (pictures_.are_all_raw()) return;
    const auto count = refused_count_.item<int64_t>();
    if (count == 0) return;
    refused_count_.zero_();
    throw corrupt_error(concat("--resident: ", count,
                               " rows were not decoded on the device, because their coefficients have changed in its "
                               "memory; expected none: start again, and test the device's memory"));
  }

  std::shared_ptr<const Dataset> dataset_;
  Pipeline pipeline_;
  LoaderOptions options_;
  torch::Device device_;
  Recorder& recorder_;
  SampleOrder order_;
  int64_t rows_;  // of a batch
  std::unique_ptr<DeviceKernels> kernels_;
  ResidentPictures pictures_;
  BatchShape shape_;
  torch::Tensor status_, refused_count_;  // i32 rows and i64, on the device
  torch::Tensor scratch_ = torch::empty({0}, torch::kUInt8);
  int64_t scratch_count_ = 0;  // how often it was allocated
  bool leaves_making_ = false;
  PlannedBatch at_hand_;  // what make() reads; its memory is the same in every step
  BatchPlanner planner_;
  std::optional<HostFallback> host_;  // none: all pictures are on the device; its workers use others
  PlanPrefetcher ahead_;              // the last member: its thread uses the others
};

}  // namespace

std::unique_ptr<Feeder> make_resident_feeder(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline,
                                             const LoaderOptions& options, const torch::Device& device,
                                             Recorder& recorder, const ResidentRoom& room) {
  return std::make_unique<ResidentFeeder>(std::move(dataset), pipeline, options, device, recorder, room);
}

}  // namespace penstock
