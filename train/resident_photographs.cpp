// Resident photographs: coefficients are copied to the device once; each step copies only the jobs of a batch there,
// and the rows of photographs that did not fit.
#include "train/resident_photographs.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "loader/device_decoder.h"
#include "loader/read_from.h"
#include "loader/sample_order.h"
#include "train/batch_tensors.h"
#include "train/cuda_device.h"
#include "train/device_kernels.h"
#include "train/host_rows.h"

namespace penstock {
namespace {

constexpr int64_t kStagingBytes = 64 << 20;

/// Copies bytes that arrive in ascending order to a tensor on the device, 64 MB at a time.
class StagedCopy {
 public:
  StagedCopy(int64_t byte_count, const torch::Device& device)
      : target_(torch::zeros({byte_count}, torch::dtype(torch::kUInt8).device(device))) {}

  /// Where `byte_count` bytes at `begin` are to be written before the next call; they are 0.
  uint8_t* room(int64_t begin, int64_t byte_count) {
    if (begin + byte_count > begin_ + staging_.numel()) {
      flush();
      begin_ = begin;
      const int64_t wanted = std::min(std::max(byte_count, kStagingBytes), target_.numel() - begin);
      staging_ = torch::zeros({wanted}, torch::kUInt8);
    }
    return staging_.data_ptr<uint8_t>() + (begin - begin_);
  }

  torch::Tensor finished() {
    flush();
    return target_;
  }

 private:
  void flush() {
    if (staging_.numel() > 0) target_.narrow(0, begin_, staging_.numel()).copy_(staging_);
    staging_ = torch::empty({0}, torch::kUInt8);
  }

  torch::Tensor target_, staging_ = torch::empty({0}, torch::kUInt8);
  int64_t begin_ = 0;  // of the staging among the target's bytes
};

torch::Tensor bytes_on(const torch::Device& device, std::span<const std::byte> bytes) {
  auto tensor =
      torch::empty({static_cast<int64_t>(bytes.size())}, torch::dtype(torch::kUInt8).pinned_memory(device.is_cuda()));
  if (!bytes.empty()) std::memcpy(tensor.data_ptr<uint8_t>(), bytes.data(), bytes.size());
  return tensor.to(device, /*non_blocking=*/true);
}

class ResidentPhotographs final : public Feeder {
 public:
  ResidentPhotographs(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline, const LoaderOptions& options,
                      const torch::Device& device, Recorder& recorder, const ResidentRoom& room)
      : dataset_(std::move(dataset)),
        pipeline_(pipeline),
        options_(options),
        device_(device),
        recorder_(recorder),
        order_(*dataset_, options),
        epoch_order_(order_.order_of(0)),
        kernels_(make_device_kernels(device)),
        work_(pictures_, pipeline.normalization(), dataset_->manifest().channels, options.layout) {
    refuse_what_only_the_host_renders();
    upload(room);
  }

  void start_epoch(int64_t epoch, int64_t first_batch) override {
    refuse_corrupt_rows();
    epoch_ = epoch, next_ = first_batch;
    epoch_order_ = order_.order_of(epoch);
    if (host_) host_->start_epoch(epoch, first_batch);
  }
  int64_t batches_per_epoch() const override { return order_.partition().batch_count(); }
  uint64_t samples_per_epoch() const override { return order_.partition().sample_count(); }
  LoaderStatistics statistics() const override { return host_ ? host_->statistics() : LoaderStatistics(); }

  std::optional<DeviceBatch> next() override {
    recorder_.mark(Phase::kOther);
    if (next_ >= batches_per_epoch()) {
      if (host_) host_->next();  // nothing: its loader is at the next epoch then
      refuse_corrupt_rows();
      return std::nullopt;
    }
    const int64_t index = next_++;
    const Partition::Rows rows = order_.partition().rows(index);
    plan(rows);
    if (host_) wait_for_host();
    recorder_.mark(Phase::kWait);
    auto batch = render(rows, index);
    recorder_.mark(Phase::kHostToDevice);
    return batch;
  }

 private:
  struct Photograph {
    static constexpr uint32_t kCorrupt = ~uint32_t{0}, kOnHost = kCorrupt - 1;
    uint64_t id = 0;
    int64_t label = 0;
    uint32_t number = kCorrupt;  // among pictures_
  };

  void refuse_what_only_the_host_renders() const {
    if (pipeline_.batch_mix().kind != BatchMix::Kind::kNone)
      throw config_error(
          concat("--resident: the transforms ", pipeline_.text(),
                 " mix rows of a batch, which only the loader on the host can do; expected no mixup and no cutmix"));
  }

  /// Photographs and the bytes of their coefficients on the device.
  struct Amount {
    int64_t count = 0, byte_count = 0;
  };

  /// Copies this rank's coefficients to the device: all samples, or with rank-local shuffling those of its shards. The
  /// rows of those that do not fit are left to the host.
  void upload(const ResidentRoom& room) {
    Amount all;
    for_each_sample([&](uint64_t index) {
      const Sample sample = dataset_->at(index);
      check_size(index, sample, /*is_first=*/all.count == 0);
      add_to(all, sample);
    });
    if (all.count == 0)
      throw config_error(concat("--resident: ", dataset_->folder().string(), " has no pictures; expected some"));
    const Amount stay = amount_that_stays(all, room);
    photographs_.resize(dataset_->size());
    StagedCopy stores(stay.byte_count, device_);
    int64_t count = 0;
    for_each_sample([&](uint64_t index) {
      const Sample sample = dataset_->at(index);
      photographs_[index] = {sample.id, sample.label, Photograph::kOnHost};
      if (count++ < stay.count) upload(index, stores);
    });
    if (stay.count < all.count)
      host_.emplace(dataset_, pipeline_, options_,
                    [this](uint64_t index) { return photographs_[index].number != Photograph::kOnHost; });
    else if (pictures_.size() == 0)
      throw config_error(concat("--resident: all pictures of ", dataset_->folder().string(),
                                " are corrupt; expected some that are not"));
    stores_ = stores.finished();
    codebooks_ = bytes_on(device_, pictures_.codebooks());
    quant_tables_ = bytes_on(device_, pictures_.quant_tables());
    refused_count_ = torch::zeros({}, torch::dtype(torch::kInt64).device(device_));
  }

  static void add_to(Amount& amount, const Sample& sample) {
    ++amount.count;
    amount.byte_count += static_cast<int64_t>(DevicePictures::byte_count_of(sample.bytes.size()));
  }

  /// All, or the first ones up to what fits.
  Amount amount_that_stays(const Amount& all, const ResidentRoom& room) const {
    const auto free_bytes = room.free_bytes ? room.free_bytes : free_device_bytes(device_);
    if (!free_bytes || all.byte_count <= bytes_for_pictures(*free_bytes)) return all;
    Amount stay, next;
    for_each_sample([&](uint64_t index) {
      add_to(next, dataset_->at(index));
      if (next.byte_count <= bytes_for_pictures(*free_bytes)) stay = next;
    });
    const char* const what = "the coefficients of ";
    if (stay.count < order_.partition().rows_per_rank()) require_room(what, all.count, all.byte_count, *free_bytes);
    if (room.say)
      room.say(share_text(what, all.count, all.byte_count, *free_bytes, stay.count) + "the loader decodes the others");
    return stay;
  }

  /// Sets the size of rows from the first sample, and expects it of the others.
  void check_size(uint64_t index, const Sample& sample, bool is_first) {
    const Plan whole = Plan::upright(sample.orientation, sample.extent.height, sample.extent.width);
    const Plan plan = pipeline_.plan(whole, options_.seed, 0, sample.id);
    if (is_first) extent_ = {plan.output_height, plan.output_width, dataset_->manifest().channels};
    if (plan.output_height == extent_.height && plan.output_width == extent_.width) return;
    throw config_error(concat("--resident: ", dataset_->where(index), ": is ", plan.output_height, " x ",
                              plan.output_width, " after the transforms, and the first sample is ", extent_.height,
                              " x ", extent_.width, "; expected all of one size: add center-crop(size=",
                              std::min(extent_.height, extent_.width), ") or random-resized-crop"));
  }

  template <class Body>
  void for_each_sample(const Body& body) const {
    for (int shard = 0; shard < dataset_->shard_count(); ++shard) {
      if (options_.shuffle == Shuffle::kRankLocal && shard % options_.world_size != options_.rank) continue;
      for (uint64_t index = dataset_->shard_begin(shard); index < dataset_->shard_begin(shard + 1); ++index)
        body(index);
    }
  }

  void upload(uint64_t index, StagedCopy& stores) {
    Photograph& photograph = photographs_[index];
    photograph.number = Photograph::kCorrupt;
    try {
      const Sample sample = dataset_->checked_at(index);
      read_from(*dataset_, index, [&] { add(sample, photograph, stores); });
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kCorrupt && options_.on_corrupt == OnCorrupt::kSubstitute) return;
      const std::string text = error.what(), where = dataset_->where(index);
      if (text.rfind(where, 0) == 0) throw;
      throw Error(error.kind(), concat("--resident: ", where, ": ", text));
    }
  }

  void add(const Sample& sample, Photograph& photograph, StagedCopy& stores) {
    const auto added = pictures_.add(sample);
    photograph.number = static_cast<uint32_t>(added.number);
    const auto room = pictures_.byte_count() - added.begin;
    uint8_t* const to = stores.room(static_cast<int64_t>(added.begin), static_cast<int64_t>(room));
    std::memcpy(to, added.store.data(), added.store.size());
  }

  /// Fills work_, and labels and weights on the host.
  void plan(const Partition::Rows& rows) {
    const auto row_count = order_.partition().rows_per_rank();
    const auto host = [&](at::ScalarType dtype) {
      return torch::zeros({row_count}, torch::dtype(dtype).pinned_memory(device_.is_cuda()));
    };
    labels_ = host(torch::kInt64), weights_ = host(torch::kFloat32);
    is_substituted_ = false;
    host_rows_.clear();
    work_.clear();
    for (int64_t row = 0; row < rows.count; ++row) {
      const uint64_t index = order_.index_at(epoch_order_, rows.first_position + static_cast<uint64_t>(row));
      const Photograph& photograph = photographs_[index];
      const bool is_corrupt = photograph.number == Photograph::kCorrupt;
      is_substituted_ |= is_corrupt;
      labels_.data_ptr<int64_t>()[row] = photograph.label;
      weights_.data_ptr<float>()[row] = is_corrupt ? 0.F : 1.F;
      if (photograph.number == Photograph::kOnHost) host_rows_.push_back(row);
      if (is_corrupt || photograph.number == Photograph::kOnHost) {
        work_.add_empty(extent_.height, extent_.width);
        continue;
      }
      const Plan plan = pipeline_.plan(pictures_.whole(photograph.number), options_.seed, static_cast<uint32_t>(epoch_),
                                       photograph.id);
      work_.add(photograph.number, plan, options_.scales_dct);
    }
  }

  /// Its loader finds out here which of its samples are corrupt.
  void wait_for_host() {
    const Batch& batch = *host_->next();
    for (const int64_t row : host_rows_) weights_.data_ptr<float>()[row] = batch.weights()[static_cast<size_t>(row)];
  }

  DeviceBatch render(const Partition::Rows& rows, int64_t index) {
    DeviceBatch batch;
    batch.epoch = epoch_, batch.index = index, batch.first_position = rows.first_position;
    batch.rows = order_.partition().rows_per_rank(), batch.count = rows.count, batch.global_count = rows.global_count;
    batch.labels = labels_.to(device_, /*non_blocking=*/true);
    batch.weights = weights_.to(device_, /*non_blocking=*/true);
    batch.images = torch::empty({batch.rows, extent_.channels, extent_.height, extent_.width},
                                torch::dtype(detail::dtype_of(options_.layout)).device(device_));
    if (rows.count < batch.rows) batch.images.narrow(0, rows.count, batch.rows - rows.count).zero_();
    if (rows.count > 0) run_kernels(batch);
    if (host_) host_->copy(host_rows_, batch.images);
    if (is_substituted_) batch.images.mul_(batch.weights.view({-1, 1, 1, 1}));
    return batch;
  }

  void run_kernels(DeviceBatch& batch) {
    const torch::Tensor jobs = bytes_on(device_, work_.jobs());
    const auto scratch_bytes = static_cast<int64_t>(work_.scratch_bytes());
    if (scratch_.numel() < scratch_bytes) {
      scratch_ = torch::Tensor();  // before the larger one is allocated
      scratch_ = torch::empty({scratch_bytes + scratch_bytes / 4}, torch::dtype(torch::kUInt8).device(device_));
    }
    const auto status = torch::zeros({batch.count}, torch::dtype(torch::kInt32).device(device_));
    const auto arguments = work_.arguments({.stores = stores_.data_ptr(),
                                            .codebooks = codebooks_.data_ptr(),
                                            .quant_tables = quant_tables_.data_ptr(),
                                            .jobs = jobs.data_ptr(),
                                            .scratch = scratch_.data_ptr(),
                                            .output = batch.images.data_ptr(),
                                            .status = reinterpret_cast<uint32_t*>(status.data_ptr<int32_t>())});
    kernels_->run(work_, arguments);
    refused_count_.add_(status.sum());
  }

  /// Checked once per epoch, because it waits for the device. Checksums were right when the coefficients were copied,
  /// so that a store can only be refused when the device's memory has changed since.
  void refuse_corrupt_rows() {
    const auto count = refused_count_.item<int64_t>();
    if (count == 0) return;
    refused_count_.zero_();
    throw corrupt_error(
        concat("--resident: ", count, " rows of epoch ", epoch_,
               " were not decoded on the device, because their coefficients have changed in its memory; "
               "expected none: start again, and test the device's memory"));
  }

  std::shared_ptr<const Dataset> dataset_;
  Pipeline pipeline_;
  LoaderOptions options_;
  torch::Device device_;
  Recorder& recorder_;
  SampleOrder order_;
  Order epoch_order_;
  std::unique_ptr<DeviceKernels> kernels_;
  DevicePictures pictures_;
  KernelBatch work_;
  std::vector<Photograph> photographs_;  // one entry per sample of the data set, filled for those of this rank
  torch::Tensor stores_, codebooks_, quant_tables_, scratch_ = torch::empty({0}, torch::kUInt8);
  torch::Tensor refused_count_;  // i64, on the device
  torch::Tensor labels_, weights_;
  bool is_substituted_ = false;
  Extent extent_;  // of one row
  int64_t epoch_ = 0, next_ = 0;
  std::vector<int64_t> host_rows_;  // rows of the batch that come from there
  std::optional<HostRows> host_;    // none: all photographs are on the device; the last member: its workers use others
};

}  // namespace

std::unique_ptr<Feeder> make_resident_photographs(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline,
                                                  const LoaderOptions& options, const torch::Device& device,
                                                  Recorder& recorder, const ResidentRoom& room) {
  return std::make_unique<ResidentPhotographs>(std::move(dataset), pipeline, options, device, recorder, room);
}

}  // namespace penstock
