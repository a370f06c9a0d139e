// The pictures on a device, as the host knows them: what DevicePictures holds and KernelBatch reads.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "loader/device/job.h"
#include "loader/device_decoder.h"
#include "loader/jpeg/geometry.h"

namespace penstock::detail {

struct StoredPicture {
  uint64_t store = 0, store_bytes = 0;
  std::array<uint32_t, 3> quant{};  // indices of tables
  uint32_t codebook = 0;
  uint16_t height = 0, width = 0;  // as stored
  std::array<uint8_t, 3> h{}, v{};
  uint8_t component_count = 0;
  bool is_ycc = false;
  uint8_t orientation = 1;

  JpegGeometry geometry() const;
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
};

}  // namespace penstock
