// The audit of an order: how well it mixes and what it costs to read, beside the full shuffle.
#pragma once

#include <array>
#include <string>

#include "loader/order/order_audit.h"
#include "loader/shards/dataset.h"
#include "tools/loadbench/options.h"

namespace penstock {

/// One stretch of an epoch: the first twentieth, the middle one, the last one.
struct AuditedStretch {
  const char* name;
  uint64_t begin, end;  // batches
  MixFigures own, full, expected;
};

struct AuditReport {
  std::array<AuditedStretch, 3> stretches;
  ReadFigures reads;
  double full_reads = 0;   ///< full_shuffle_reads() with as many shards as `reads` holds.
  double full_shards = 0;  ///< Expected shards in a node's rows of a batch of the full shuffle.
  uint64_t rows = 0, shards = 0, bytes = 0;
};

/// Audits epoch 0 of the order that options.loader names, for options.loader.world_size nodes. At most 400,000 rows of
/// each stretch are looked at. Throws config_error for a sampler, rank-local shuffling, and less than a full batch.
AuditReport audit(const Dataset& dataset, const BenchOptions& options);

std::string audit_table(const AuditReport& report, const BenchOptions& options);

/// Writes the report to the file options.json, with write_out_file(). Throws io_error.
void write_audit(const AuditReport& report, const BenchOptions& options);

}  // namespace penstock
