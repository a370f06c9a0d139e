// Pictures stored as coefficients, and batches of them made by the device's kernels on the processor.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "augment/plan/footprint.h"
#include "loader/codecs/codec.h"
#include "loader/device/device_renderer.h"
#include "loader/jpeg/base/header.h"
#include "loader/jpeg/store/codebook.h"
#include "loader/jpeg/store/codebook_training.h"
#include "loader/pack/encoder.h"
#include "tests/loader/jpeg_pictures.h"

namespace penstock::testing_data {

/// A codebook that is trained once, on pictures of several qualities.
inline std::shared_ptr<const detail::Codebook> device_codebook() {
  static const auto codebook = [] {
    detail::TrainingSample sample;
    for (const int quality : {30, 75, 95}) {
      Rng rng(40, 0, static_cast<uint64_t>(quality), 0);
      const auto file = encode_jpeg({"420", {2, 2}}, 160, 200, quality, rng);
      const detail::JpegGeometry geometry(detail::parse_jpeg_header(file));
      LibjpegSource source(file, geometry);
      sample.append(detail::sample_blocks(geometry, source, 4000));
    }
    return std::make_shared<const detail::Codebook>(detail::train_codebook(sample, 2));
  }();
  return codebook;
}

/// A JPEG as a shard would hold it.
struct CoefficientPicture {
  std::vector<uint8_t> bytes;
  Sample sample;
};

inline CoefficientPicture coefficient_picture(std::vector<uint8_t> file) {
  static DecodeScratch scratch;
  const Extent extent = detail::jpeg_extent(detail::parse_jpeg_header(file));
  auto encoded = detail::Encoder({.encode = Encode::kCoefficients}, device_codebook())
                     .encode(0, {std::move(file), Encoding::kJpeg, extent}, scratch);
  CoefficientPicture picture{.bytes = std::move(encoded.bytes), .sample = {}};
  picture.sample = {.extent = encoded.extent,
                    .encoding = encoded.encoding,
                    .bytes = picture.bytes,
                    .codebook = device_codebook().get()};
  return picture;
}

struct DeviceRow {
  static constexpr size_t kEmpty = ~size_t{0};  // a row that shows no picture
  size_t picture = 0;
  Plan plan;
};

/// What the kernels make of a batch. Every buffer has exactly the size that is asked for, so that AddressSanitizer
/// detects an access outside of it, and is filled with rubbish before.
struct DeviceOutput {
  std::vector<float> values;     // of f32
  std::vector<uint16_t> halves;  // bits, of f16 and bf16
  std::vector<uint32_t> status;
};

class CpuDevice {
 public:
  size_t add(const Sample& sample) {
    const auto added = pictures_.add(sample);
    stores_.resize(pictures_.byte_count() / 4);
    stores_.shrink_to_fit();
    std::copy(added.store.begin(), added.store.end(), stores().begin() + static_cast<ptrdiff_t>(added.begin));
    return added.number;
  }
  /// The bytes of all stores, to be damaged.
  std::span<uint8_t> stores() { return {reinterpret_cast<uint8_t*>(stores_.data()), stores_.size() * 4}; }
  const DevicePictures& pictures() const { return pictures_; }

  DeviceOutput run(const std::vector<DeviceRow>& rows, const Normalization& normalization, int channels,
                   bool scales_dct = false, bool is_reversed = false, Layout layout = Layout::kF32Nchw) {
    const Plan& any = rows.front().plan;
    const BatchShape shape{.rows = static_cast<int>(rows.size()),
                           .output = {any.output_height, any.output_width, channels},
                           .normalization = normalization,
                           .layout = layout};
    KernelBatch batch(pictures_, shape.output);
    for (const auto& row : rows)
      row.picture == DeviceRow::kEmpty ? batch.add_empty() : batch.add(row.picture, row.plan, scales_dct);
    const size_t count = rows.size() * static_cast<size_t>(channels * any.output_height * any.output_width);
    const bool is_f32 = layout == Layout::kF32Nchw;
    DeviceOutput output{.values = std::vector<float>(is_f32 ? count : 0, -12345.f),
                        .halves = std::vector<uint16_t>(is_f32 ? 0 : count, 0xABCD),
                        .status = std::vector<uint32_t>(rows.size())};
    void* const to = is_f32 ? static_cast<void*>(output.values.data()) : output.halves.data();
    // Aligned as memory from a device's allocator is.
    std::vector<uint64_t> scratch((batch.needs().scratch_bytes + 7) / 8, 0xA5A5A5A5A5A5A5A5);
    const auto arguments = kernel_arguments(shape, {.stores = stores_.data(),
                                                    .codebooks = pictures_.codebooks().data(),
                                                    .quant_tables = pictures_.quant_tables().data(),
                                                    .jobs = batch.jobs().data(),
                                                    .scratch = scratch.data(),
                                                    .output = to,
                                                    .status = output.status.data()});
    run_on_cpu(kernel_launches(shape, batch.needs()), arguments, is_reversed);
    return output;
  }

 private:
  DevicePictures pictures_;
  std::vector<uint32_t> stores_;
};

/// One row as the loader makes it: decoded by the coefficient codec, then rendered in the layout, which has elements of
/// type T.
template <class T>
std::vector<T> loader_row_of(const Sample& sample, const Plan& given, const Normalization& normalization, int channels,
                             bool scales_dct, Layout layout) {
  static DecodeScratch scratch;
  const int scale = scales_dct ? dct_scale(given) : 8;
  const Plan plan = at_dct_scale(given, scale);
  const Picture picture =
      codec_for(sample.encoding)
          .decode(sample, {.region = footprint(plan), .dct_scale = scale, .channels = channels}, scratch);
  std::vector<T> values(static_cast<size_t>(channels * plan.output_height * plan.output_width));
  render(picture, plan, normalization, layout, values.data());
  return values;
}

inline std::vector<float> loader_row(const Sample& sample, const Plan& plan, const Normalization& normalization,
                                     int channels, bool scales_dct = false) {
  return loader_row_of<float>(sample, plan, normalization, channels, scales_dct, Layout::kF32Nchw);
}

inline const Normalization kLevels{.scale = {1, 1, 1}, .bias = {}};

/// Runs the kernels for one row, with the threads of a phase in both orders, and compares it with the loader's.
inline void expect_loaders_row(CpuDevice& device, const Sample& sample, const DeviceRow& row, int channels,
                               bool scales_dct, const Normalization& normalization = kLevels) {
  const auto expected = loader_row(sample, row.plan, normalization, channels, scales_dct);
  for (const bool is_reversed : {false, true}) {
    const auto found = device.run({row}, normalization, channels, scales_dct, is_reversed);
    ASSERT_EQ(found.status, std::vector<uint32_t>(1));
    ASSERT_EQ(found.values.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_EQ(found.values[i], expected[i]) << "value " << i << (is_reversed ? ", threads reversed" : "");
  }
}

/// A step with an amount as transforms give it.
inline ColorStep random_step(Rng& rng) {
  const auto op = static_cast<ColorOp>(rng.between(0, 10));
  if (op == ColorOp::kHue) return {op, static_cast<float>(rng.uniform() - 0.5)};
  if (op == ColorOp::kPosterize) return {op, static_cast<float>(rng.between(1, 8))};
  if (op == ColorOp::kSolarize) return {op, static_cast<float>(rng.between(0, 255))};
  if (op == ColorOp::kSolarizeAdd) return {op, static_cast<float>(rng.between(0, 128))};
  if (op == ColorOp::kGaussianBlur)
    return {op, static_cast<float>(rng.uniform(0.1, 3)), rng.chance(0.5) ? 2 * rng.between(0, 15) + 1 : 0};
  return {op, static_cast<float>(2 * rng.uniform())};
}

/// 1 to 8 of them, in any order.
inline void add_random_steps(Plan& plan, Rng& rng) {
  const int erased_count = std::exchange(plan.erased_count, 0);  // steps come before them
  for (int k = rng.between(1, Plan::kMaxColorSteps); k > 0; --k) {
    const ColorStep step = random_step(rng);
    plan.adjust(step.op, step.amount, step.kernel);
  }
  plan.erased_count = erased_count;
}

}  // namespace penstock::testing_data
