// The pictures on a device, as the host knows them: what DevicePictures holds and KernelBatch reads.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "loader/device/device_pictures.h"
#include "loader/device/job.h"
#include "loader/jpeg/base/geometry.h"

namespace penstock::detail {

struct StoredPicture {
  uint64_t store = 0, store_bytes = 0;
  uint16_t height = 0, width = 0;  // as stored
  uint8_t channels = 0;            // or components
  uint8_t orientation = 1;
  bool is_raw = false;  // its store is its pixels; nothing below is set
  bool is_ycc = false;
  std::array<uint8_t, 3> h{}, v{};
  std::array<uint32_t, 3> quant{};  // indices of tables
  uint32_t codebook = 0;

  JpegGeometry geometry() const;  ///< Requires coefficients.
};

}  // namespace penstock::detail

namespace penstock {

struct DevicePictures::State {
  std::vector<detail::StoredPicture> pictures;
  std::vector<detail::DeviceCodebook> codebooks;
  std::vector<detail::QuantTable> quant_tables;
  std::map<const detail::Codebook*, uint32_t> codebook_numbers;
  std::map<std::array<uint16_t, 64>, uint32_t> quant_numbers;
  uint64_t byte_count = 0;

  detail::StoredPicture of_coefficients(const Sample& sample, std::span<const uint8_t> store,
                                        const detail::JpegHeader& header);
  Added append(detail::StoredPicture picture, std::span<const uint8_t> store);
};

}  // namespace penstock
