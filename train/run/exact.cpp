// --exact: checks, and the kernels of one instruction set.
#include "train/run/exact.h"

#include <ATen/Version.h>

#include <cstdlib>

#include "core/error.h"
#include "core/machine.h"
#include "core/number_text.h"
#include "core/text.h"
#include "train/optimizers/optimizer.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock {
namespace {

struct Variable {
  const char* name;
  const char *avx2, *native;  // values with these kernels; null: it must not be there
};

// With other instructions a sum has other partial sums, one for each element of a vector. MKL takes AVX2 on Intel's
// processors alone; on others it ignores MKL_CBWR=AVX2 without a word and chooses by itself. COMPATIBLE (SSE2) is the
// one branch that it has on all of them. With AUTO it chooses, and its sums do not depend on where a matrix begins in
// memory. Those that must not be there would change what MKL and oneDNN do with these instructions.
constexpr Variable kVariables[] = {{"ATEN_CPU_CAPABILITY", "avx2", nullptr},
                                   {"ONEDNN_MAX_CPU_ISA", "AVX2", nullptr},
                                   {"MKL_CBWR", "COMPATIBLE", "AUTO"},
                                   {"DNNL_MAX_CPU_ISA", nullptr, nullptr},
                                   {"MKL_ENABLE_INSTRUCTIONS", nullptr, nullptr},
                                   {"ONEDNN_DEFAULT_FPMATH_MODE", nullptr, nullptr},
                                   {"DNNL_DEFAULT_FPMATH_MODE", nullptr, nullptr}};

bool is_native(const TrainOptions& options) { return options.exact_kernels == "native"; }

void require_avx2() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    throw device_error(concat("--exact: this processor (", processor_name(),
                              ") has no AVX2; expected one that has, or ", "--exact-kernels native"));
#endif
}

}  // namespace

void check_exact_mode(const TrainOptions& options) {
  if (options.exact_shards == 0) return;
  const auto exact = StrategyRegistry::entry(options.mode->name()).traits.exact;
  if (exact == StrategyKind::Exact::kNever) {
    std::vector<std::string> able;
    for (const auto& [other, entry] : StrategyRegistry::entries())
      if (entry.traits.exact != StrategyKind::Exact::kNever) able.push_back(other);
    throw config_error(concat("--exact is ", options.exact_shards, " with --mode ", options.mode,
                              ", which does not compute shards one by one; expected ", join(able)));
  }
  const auto& optimizer = OptimizerRegistry::entry(options.optimizer->name());
  if (exact == StrategyKind::Exact::kPieces && !optimizer.traits.takes_pieces)
    throw config_error(concat("--exact is ", options.exact_shards, " with --mode ", options.mode, " and --optimizer ",
                              options.optimizer, ", which gives pieces of parameters other bits; expected another ",
                              "mode or optimizer"));
}

std::vector<std::string> pin_kernels(const TrainOptions& options) {
  if (!is_native(options)) require_avx2();
  std::vector<std::string> lines;
  for (const auto& [name, avx2, native] : kVariables) {
    const char* const value = is_native(options) ? native : avx2;
    const char* const given = std::getenv(name);
    if (given != nullptr && (value == nullptr || std::string(given) != value))
      lines.push_back(concat("exact: ", name, " is ", given, " in the environment; it is ",
                             value == nullptr ? "left out" : concat("taken as ", value)));
    value == nullptr ? unsetenv(name) : setenv(name, value, /*overwrite=*/1);
  }
  return lines;
}

std::string kernels_text(const TrainOptions& options) {
  if (!is_native(options)) return options.exact_kernels;
  return concat(options.exact_kernels, " of ", processor_name(), " with ", at::get_cpu_capability());
}

std::string exact_text(const TrainOptions& options) {
  const int64_t rows = options.batch_size / options.exact_shards;
  const std::string kernels = is_native(options) ? concat("the kernels of this processor (", processor_name(), ", ",
                                                          at::get_cpu_capability(), "), whose bits others may not have")
                                                 : "kernels that every processor with AVX2 has";
  return concat("exact: ", count_text(options.exact_shards, "shard"),
                options.only_evaluates ? "" : concat(" of ", count_text(rows, "row")), " per batch; ", kernels,
                ", by one thread per rank or replica\n");
}

}  // namespace penstock
