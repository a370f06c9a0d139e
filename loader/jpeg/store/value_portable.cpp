// The inner loop of StoreWriter for any processor, and the choice between the loops.
#include <array>

#include "loader/jpeg/store/store_kernel.h"
#include "loader/jpeg/store/value_kernel.h"

namespace penstock::detail {

BlockPlaces put_values_portable(const ValueJob& job, BitWriter& values) {
  const EntryWidths& widths = job.tables->widths_of(job.entry);
  BlockPlaces places;
  BitWriter writer = values;
  for (const Need need : job.needs) {
    const int k = coefficient_of(need), value = job.block[k];
    const bool fits = width_of(need) <= widths[k];
    places.exceptional |= uint64_t{!fits} << k;
    places.mask |= uint64_t{fits} << job.mask_bits[k];
    const int width = fits ? widths[k] : 0;
    const auto field = static_cast<uint32_t>(value + (1 << width >> 1) - (value > 0));
    writer.put(fits ? field : 0, width);
  }
  values = writer;
  return places;
}

std::span<const NamedValueKernel> value_kernels() {
  static constexpr std::array<NamedValueKernel, 2> kKernels{{
      {"portable", put_values_portable},
#if defined(__x86_64__)
      {"bmi2", put_values_bmi2},
#endif
  }};
  const bool has_bmi2 = store_kernels().size() > 1;
  return std::span(kKernels).first(has_bmi2 ? 2 : 1);
}

}  // namespace penstock::detail
