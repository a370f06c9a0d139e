// StoreWriter: writes the coefficients of a picture as the bytes of the coefficient store.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "loader/jpeg/base/coefficients.h"
#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/store/codebook.h"
#include "loader/jpeg/store/value_kernel.h"

namespace penstock::detail {

/// Writes pictures with one codebook. Equal inputs give equal bytes, on every processor.
/// Memory: 330 KB of tables. Thread-safety: const; many threads may call write(), each with a source of its own.
class StoreWriter {
 public:
  /// Takes 0.2 ms. `codebook` must outlive the writer.
  explicit StoreWriter(const Codebook& codebook, ValueKernel kernel = value_kernels().back().kernel);
  ~StoreWriter();

  /// Stores every coefficient of `source` in the bytes of store_format.h. With the same codebook they can be read back
  /// exactly. Throws what `source` throws, and config_error when there would be more than 4 GiB of bytes.
  std::vector<uint8_t> write(const JpegGeometry& geometry, CoefficientSource& source) const;

  struct Tables;

 private:
  std::unique_ptr<const Tables> tables_;
};

}  // namespace penstock::detail
