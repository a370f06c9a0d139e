// Sink: the plug-in that writes a run's figures somewhere. There is a record every --print-freq steps, and one per
// epoch.
//
// Lives here: plug-ins that write the figures of a run: JSON lines, CSV, TensorBoard, the terminal, the GPU's use.
// Not here: measuring (train/measure), and the summary at the end of a run (train/run).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "core/registry.h"
#include "train/measure/metrics.h"

namespace penstock {

/// Errors: io_error. Thread-safety: for the training thread only.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(const Metrics& metrics) = 0;
};

/// Where a run writes.
struct SinkContext {
  std::filesystem::path folder;  ///< The folder of the run.
  int64_t resumed_step = -1;     ///< Step of the checkpoint from which this run continues; negative: it starts anew.
  std::ostream& terminal;
  int64_t ended_epochs = INT64_MAX;  ///< Epochs whose ends had been recorded when that checkpoint was written.
  /// The keys of Metrics::test_scores that records of epochs will have.
  std::vector<std::string> test_scores = {};
};

struct SinkTraits {
  /// The name of the file that it writes in the folder of the run, or the begin of the names of its files followed by
  /// `*`. A run that starts anew removes these files. Empty: it writes none.
  std::string files = {};
};

/// Every run has one sink of each registered kind.
struct SinkKind {
  using Interface = Sink;
  using Traits = SinkTraits;
  static constexpr const char* kName = "sink";
  using Factory = std::function<std::unique_ptr<Sink>(const Spec&, const SinkContext&)>;
};
using SinkRegistry = Registry<SinkKind>;

/// One sink of each kind, in the order of their names. Throws what their constructors throw.
std::vector<std::unique_ptr<Sink>> make_sinks(const SinkContext& context);

/// The line of an epoch, without the line end: `Epoch [1/10], Loss: 0.5043, Dur: 3.1 s, load 0.4 ms, update 1.2 ms`.
std::string epoch_line(const Metrics& metrics);

/// The line of a step whose gradients were compressed, without the line end: `Epoch [1/10], step 100, Loss: 0.5043,
/// compression error 0.31`.
std::string compression_line(const Metrics& metrics);

}  // namespace penstock
