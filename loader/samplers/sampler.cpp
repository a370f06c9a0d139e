// Sampler: the key that several of them have.
#include "loader/samplers/sampler.h"

namespace penstock {

uint64_t rows_of(const Spec& spec, uint64_t fallback) {
  const int rows = spec.get("rows", 0);
  if (!spec.has("rows")) return fallback;
  if (rows < 1) throw config_error(concat(spec.where(), ": rows is ", rows, "; expected 1 or more rows per epoch"));
  return static_cast<uint64_t>(rows);
}

}  // namespace penstock
