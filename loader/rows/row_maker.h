// RowMaker: makes any row of any batch, as a pure function of its place in the order.
//
// Lives here: one row of a batch: options, columns, which sample it shows, what becomes of a corrupt one, times.
// Not here: decoding (loader/codecs), rendering (augment), and when a row is made (loader/batch).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "augment/transform.h"
#include "core/error.h"
#include "loader/codecs/codec.h"
#include "loader/order/partition.h"
#include "loader/rows/batch_format.h"
#include "loader/rows/combinations.h"
#include "loader/rows/histogram.h"
#include "loader/rows/loader_options.h"
#include "loader/rows/loader_statistics.h"
#include "loader/rows/mender.h"
#include "loader/rows/row_renderer.h"
#include "loader/rows/sample_order.h"
#include "loader/rows/view_columns.h"
#include "loader/rows/view_parts.h"
#include "loader/shards/dataset.h"

namespace penstock::detail {

/// The known columns of one batch, found once for many rows.
struct KnownColumns {
  std::byte* block;
  std::byte* pixels;
  int64_t* labels;
  uint64_t* ids;
  float* weights;
  uint64_t* indices;
  int64_t* second_labels = nullptr;  // null where no mix was asked for, as the one below
  float* mix_weights = nullptr;
};

/// What a worker keeps between rows. Nothing here is shared, so that nothing is locked, and nothing is allocated per
/// row.
struct alignas(128) RowWorker {  // 128: neighbouring cache lines are fetched in pairs
  using Row = FoundRow;
  static constexpr int64_t kGroup = 64;  // rows that are looked up together; they take 8 KB

  std::vector<Row> rows = std::vector<Row>(kGroup);
  std::vector<Row> partners;              // one entry per row of `rows`; empty until the first mix
  std::vector<std::byte> partner_pixels;  // the pixels of one partner; empty until the first mix
  /// One entry per view: of the row that was rendered last. With one view only its plan is written, and only where
  /// there are makers.
  std::vector<ViewPart> views = std::vector<ViewPart>(1);
  DecodeScratch scratch;
  int timed_every = 1, until_timed = 1;  // rows
  Histogram read, plan, decode, render;
  std::atomic<uint64_t> made_count{0}, masked_count{0}, substituted_count{0}, sample_bytes{0};
};

/// Thread-safety: const members may be called on any thread, each with a RowWorker of its own.
class RowMaker {
 public:
  /// Finds the extent of rendered samples from the plan of the first sample and the manifest's channels, and makes the
  /// makers of columns. Throws config_error.
  RowMaker(std::shared_ptr<const Dataset> dataset, Pipeline pipeline, const LoaderOptions& options);
  /// The same samples as `other` in the same order, by other transforms. `options` may have other views.
  RowMaker(const RowMaker& other, Pipeline pipeline, const LoaderOptions& options);

  const Dataset& dataset() const { return *dataset_; }
  const Pipeline& pipeline() const { return views_.front().pipeline(); }
  std::vector<std::string> warnings() const {
    return column_warnings(pipeline(), makers_, static_cast<uint64_t>(partition().rows_per_rank()));
  }
  const Partition& partition() const { return samples_->partition(); }
  const std::shared_ptr<const BatchFormat>& format() const { return format_; }
  const SampleOrder& samples() const { return *samples_; }
  bool is_rank_local() const { return shuffle_ == Shuffle::kRankLocal; }
  CorruptRows& corrupt_rows() const { return mender_->rows(); }

  /// Makes rows [begin, end) of batch `index` of `epoch`. Stops at the first row that fails, and throws its error.
  void make(int64_t epoch, int64_t index, int64_t begin, int64_t end, std::byte* block, RowWorker& worker) const;

 private:
  using Laps = StageLaps;
  struct BatchContext {
    int64_t epoch, index;
    Partition::Rows rows;
    EpochOrder order;
    BatchPlan mix{};            // kNone: this batch is not mixed
    uint64_t mix_position = 0;  // the position in the epoch that is position 0 of `mix`
    int64_t mix_row = 0;        // the position in `mix` of this rank's row 0
  };

  RowMaker(std::shared_ptr<const Dataset> dataset, Pipeline pipeline, const LoaderOptions& options,
           std::shared_ptr<const SampleOrder> samples, std::shared_ptr<const Mender> mender);
  std::vector<RowRenderer> views_of(Pipeline pipeline, const LoaderOptions& options) const;
  std::vector<ViewColumns> makers_of(const std::string& columns) const;
  std::vector<Column> made_columns() const;
  size_t column_of_view(size_t view) const {
    return view == 0 ? size_t{Column::kImages} : format_->made_begin() + view - 1;
  }
  std::byte* row_of(std::byte* block, size_t column, int64_t i) const {
    return format_->begin<std::byte>(block, column) + static_cast<size_t>(i) * format_->columns[column].row_bytes();
  }
  bool mixes() const { return pipeline().batch_mix().kind != BatchMix::Kind::kNone; }
  KnownColumns columns_in(std::byte* block) const;
  BatchContext context_of(int64_t epoch, int64_t index) const;
  void make_group(const BatchContext& context, int64_t begin, int64_t end, const KnownColumns& columns,
                  RowWorker& worker) const;
  int64_t find_rows(const BatchContext& context, int64_t begin, int64_t end, RowWorker& worker,
                    std::exception_ptr& failure) const;
  int64_t look_up(std::vector<RowWorker::Row>& rows, int64_t count, RowWorker& worker,
                  std::exception_ptr& failure) const;
  void make_whole(const BatchContext& context, const RowWorker::Row& row, const RowWorker::Row& partner, int64_t i,
                  const KnownColumns& columns, RowWorker& worker) const;
  bool mend(const BatchContext& context, RowWorker::Row& row, RowWorker::Row& partner, int64_t i, const Error* error,
            const KnownColumns& columns, RowWorker& worker) const;
  void make_columns(const BatchContext& context, const RowWorker::Row& row, int64_t i, std::byte* block,
                    const RowWorker& worker) const;
  void clear_columns(int64_t begin, int64_t end, std::byte* block) const;
  void emulate_load() const;
  bool marked(RowWorker::Row& row, const Error& error) const;
  void make_mixed(const BatchContext& context, const RowWorker::Row& row, const RowWorker::Row& partner,
                  std::byte* output, RowWorker& worker) const;
  template <class Body>
  void reading(const RowWorker::Row& row, const Body& body) const;
  void make_row(const BatchContext& context, const RowWorker::Row& row, std::byte* output, RowWorker& worker,
                std::byte* blended = nullptr) const;
  void render_row(const BatchContext& context, const RowWorker::Row& row, std::byte* output, RowWorker& worker,
                  Laps& laps) const;
  void render_views(const BatchContext& context, const RowWorker::Row& row, RowWorker& worker, Laps& laps) const;

  std::shared_ptr<const Dataset> dataset_;
  std::vector<RowRenderer> views_;  // the first one makes the column `images`
  uint64_t seed_;
  Shuffle shuffle_;
  Layout layout_;
  int64_t emulated_load_ns_;
  std::function<bool()> ends_emulated_load_;
  std::function<bool(uint64_t)> leaves_out_;
  // Shared by the makers of a loader, which has one for each size of a size schedule.
  std::shared_ptr<const SampleOrder> samples_;
  std::shared_ptr<const Mender> mender_;
  Extent extent_;     // of one rendered sample
  size_t row_bytes_;  // of its pixels
  std::vector<ViewColumns> makers_;
  std::shared_ptr<const BatchFormat> format_;  // shared with batches, which may outlive their loader
  bool are_held_;                              // whether samples come and go
  int64_t group_;  // rows that are looked up together: fewer where the samples of as many could not be held at a time
};

}  // namespace penstock::detail
