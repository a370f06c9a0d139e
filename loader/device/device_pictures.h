// DevicePictures: what the host knows of the pictures in the memory of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "augment/plan/plan.h"
#include "loader/shards/shard.h"

namespace penstock {

/// What the host knows of the pictures on the device: header, place and tables of each. The stores themselves are
/// copied to the device by the caller.
///
/// Memory: 48 bytes per picture, 66 KB per codebook. Thread-safety: add() is for one thread; const members for any.
class DevicePictures {
 public:
  DevicePictures();
  ~DevicePictures();

  struct Added {
    size_t number = 0;
    std::span<const uint8_t> store;  ///< A part of the sample's bytes, to be copied to `begin` among the stores.
    uint64_t begin = 0;              ///< The bytes after it up to byte_count() must be 0.
  };
  /// Adds a sample, whose codebook must live as long as this object. Throws config_error for a sample that is stored
  /// neither as coefficients nor as pixels, and corrupt_error for what the codec would refuse before it decodes
  /// anything. The messages state only the fact; the caller puts where() before them.
  Added add(const Sample& sample);

  size_t size() const;
  uint64_t byte_count() const;  ///< Bytes of all stores on the device.
  /// An upper bound of what add() adds to byte_count() for a sample of this many bytes.
  static uint64_t byte_count_of(uint64_t sample_bytes);
  Plan whole(size_t number) const;               ///< The plan that shows the picture upright.
  std::span<const std::byte> codebooks() const;  ///< To be copied to the device as they are, after the last add().
  std::span<const std::byte> quant_tables() const;

 private:
  friend class KernelBatch;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
