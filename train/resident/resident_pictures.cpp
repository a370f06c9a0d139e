// ResidentPictures: chooses the samples that stay on the device, and copies them there once.
#include "train/resident/resident_pictures.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "core/error.h"
#include "core/text.h"
#include "loader/files/read_from.h"
#include "loader/rows/sample_order.h"
#include "train/tensor/cuda_device.h"

namespace penstock {
namespace {

constexpr int64_t kStagingBytes = 64 << 20;

torch::Tensor bytes_on(const torch::Device& device, std::span<const std::byte> bytes) {
  auto tensor = torch::empty({static_cast<int64_t>(bytes.size())}, torch::kUInt8);
  if (!bytes.empty()) std::memcpy(tensor.data_ptr<uint8_t>(), bytes.data(), bytes.size());
  return tensor.to(device);
}

}  // namespace

/// What the constructor needs while it runs.
class ResidentPictures::Upload {
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

  /// Pictures and their bytes on the device.
  struct Amount {
    int64_t count = 0, byte_count = 0;

    void add(const Sample& sample) {
      ++count;
      byte_count += static_cast<int64_t>(DevicePictures::byte_count_of(sample.bytes.size()));
    }
  };

 public:
  Upload(ResidentPictures& to, const Dataset& dataset, const Pipeline& pipeline, const LoaderOptions& options,
         int64_t rows_per_rank)
      : to_(to),
        dataset_(dataset),
        pipeline_(pipeline),
        options_(options),
        samples_(dataset, options),
        rows_per_rank_(rows_per_rank) {}

  void run(const torch::Device& device, const ResidentRoom& room) {
    const Amount all = checked_amount();
    const Amount stay = amount_that_stays(all, room.free_bytes ? room.free_bytes : free_device_bytes(device));
    if (stay.count < all.count && room.log)
      room.log(share_text(what(), all.count, all.byte_count, *room_bytes_, stay.count) +
               "the loader makes the rows of the others");
    to_.are_all_here_ = stay.count == all.count;
    to_.entries_.resize(dataset_.size());
    StagedCopy stores(stay.byte_count, device);
    int64_t count = 0;
    for_each_sample([&](uint64_t index, const Sample& sample) {
      to_.entries_[index] = {sample.id, sample.label, Entry::kOnHost};
      if (count++ < stay.count) upload(index, stores);
    });
    if (to_.are_all_here_ && to_.pictures_.size() == 0)
      throw config_error(concat("--resident: all pictures of ", dataset_.folder().string(),
                                " are corrupt; expected some that are not"));
    to_.stores_ = stores.finished();
    to_.codebooks_ = bytes_on(device, to_.pictures_.codebooks());
    to_.quant_tables_ = bytes_on(device, to_.pictures_.quant_tables());
  }

 private:
  /// Calls body(index, sample) for this rank's samples, in their order.
  template <class Body>
  void for_each_sample(const Body& body) const {
    for (uint64_t k = 0; k < samples_.size(); ++k) body(samples_.index_of(k), dataset_.at(samples_.index_of(k)));
  }

  const char* what() const { return to_.are_all_raw_ ? "" : "the coefficients of "; }

  Amount checked_amount() {
    Amount all;
    for_each_sample([&](uint64_t index, const Sample& sample) {
      check_size(index, sample, /*is_first=*/all.count == 0);
      to_.are_all_raw_ &= sample.encoding == Encoding::kRaw;
      all.add(sample);
    });
    if (all.count == 0)
      throw config_error(concat("--resident: ", dataset_.folder().string(), " has no pictures; expected some"));
    return all;
  }

  /// Sets the size of rows from the first sample, and expects it of the others. Planning takes longer than reading, so
  /// a sample of the size of the one before it is not planned.
  void check_size(uint64_t index, const Sample& sample, bool is_first) {
    if (!is_first && sample.extent == checked_extent_ && sample.orientation == checked_orientation_) return;
    checked_extent_ = sample.extent, checked_orientation_ = sample.orientation;
    const Plan whole = Plan::upright(sample.orientation, sample.extent.height, sample.extent.width);
    const Plan plan = pipeline_.plan(whole, options_.seed, 0, sample.id);
    Extent& row = to_.row_extent_;
    if (is_first) row = {plan.output_height, plan.output_width, pipeline_.channels(dataset_.manifest().channels)};
    if (plan.output_height == row.height && plan.output_width == row.width) return;
    throw config_error(concat("--resident: ", dataset_.where(index), ": is ", plan.output_height, " x ",
                              plan.output_width, " after the transforms, and the first sample is ", row.height, " x ",
                              row.width, "; expected all of one size: add center-crop(size=",
                              std::min(row.height, row.width), ") or random-resized-crop"));
  }

  /// All, or the first ones up to what fits.
  Amount amount_that_stays(const Amount& all, std::optional<int64_t> free_bytes) {
    room_bytes_ = free_bytes;
    if (!free_bytes || all.byte_count <= bytes_for_pictures(*free_bytes)) return all;
    Amount stay, next;
    for_each_sample([&](uint64_t, const Sample& sample) {
      next.add(sample);
      if (next.byte_count <= bytes_for_pictures(*free_bytes)) stay = next;
    });
    if (stay.count < rows_per_rank_) require_room(what(), all.count, all.byte_count, *free_bytes);
    return stay;
  }

  void upload(uint64_t index, StagedCopy& stores) {
    Entry& entry = to_.entries_[index];
    entry.number = Entry::kCorrupt;
    try {
      const Sample sample = dataset_.checked_at(index);
      read_from(dataset_, index, [&] { entry.number = add(sample, stores); });
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kCorrupt && options_.on_corrupt != OnCorrupt::kFail) return;
      const std::string text = error.what(), where = dataset_.where(index);
      if (text.rfind(where, 0) == 0) throw;
      throw Error(error.kind(), concat("--resident: ", where, ": ", text));
    }
  }

  uint32_t add(const Sample& sample, StagedCopy& stores) {
    const auto added = to_.pictures_.add(sample);
    const auto room = to_.pictures_.byte_count() - added.begin;
    uint8_t* const to = stores.room(static_cast<int64_t>(added.begin), static_cast<int64_t>(room));
    std::memcpy(to, added.store.data(), added.store.size());
    return static_cast<uint32_t>(added.number);
  }

  ResidentPictures& to_;
  const Dataset& dataset_;
  const Pipeline& pipeline_;
  const LoaderOptions& options_;
  SampleOrder samples_;
  int64_t rows_per_rank_;
  Extent checked_extent_;
  uint8_t checked_orientation_ = 0;
  std::optional<int64_t> room_bytes_;
};

ResidentPictures::ResidentPictures(const Dataset& dataset, const Pipeline& pipeline, const LoaderOptions& options,
                                   int64_t rows_per_rank, const torch::Device& device, const ResidentRoom& room) {
  Upload(*this, dataset, pipeline, options, rows_per_rank).run(device, room);
}

DeviceAddresses ResidentPictures::addresses() const {
  DeviceAddresses addresses;
  addresses.stores = stores_.data_ptr(), addresses.codebooks = codebooks_.data_ptr();
  addresses.quant_tables = quant_tables_.data_ptr();
  return addresses;
}

}  // namespace penstock
