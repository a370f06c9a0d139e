// RowMaker: position -> sample -> plan -> pixels.
#include "loader/rows/row_maker.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "augment/render/mix_rows.h"
#include "core/clock.h"
#include "core/text.h"
#include "loader/files/map_guard.h"
#include "loader/rows/held_rows.h"
#include "loader/shards/pipeline_of.h"

namespace penstock::detail {
namespace {

constexpr int kTimedEvery = 17;  // not a power of two, so that the timed rows wander over the batch
constexpr int64_t kAlwaysTimedNs = 20000;
constexpr size_t kPrefetchBytes = 4096;
constexpr int64_t kPagesAhead = 4, kRowsAhead = 2;  // rows

/// GCC takes a function that only prefetches for one without an effect, and drops the calls of it. Without this
/// function, that cost 30 % of the time of an MNIST sample.
void keep_call() { asm volatile(""); }

/// In a shuffled order the hardware cannot guess the next sample, so that the bytes of a small picture are prefetched
/// before its turn. There are two steps, because the address translation of a page that was not used for long takes
/// longer than loading its bytes, and whatever is requested after it has to wait: prefetch_pages() asks for the
/// translations, prefetch() for the bytes. For a large picture this is done for the first page only; the hardware
/// foresees the rest. Both together save 13 % of the time of an MNIST sample. The bytes go to the second-level cache,
/// because a picture of CIFAR-10 has more lines than the first-level cache can have in flight, and whatever comes after
/// these lines would wait: 12 % of the time of such a sample (Zen 4).
void prefetch_pages(const Sample& sample) {
  if (sample.bytes.empty()) return;
  keep_call();
  __builtin_prefetch(sample.bytes.data());
  __builtin_prefetch(sample.bytes.data() + std::min(sample.bytes.size(), kPrefetchBytes) - 1);
}

void prefetch(const Sample& sample) {
  keep_call();
  const size_t count = std::min(sample.bytes.size(), kPrefetchBytes);
  constexpr int kToSecondLevel = 2;
  for (size_t offset = 0; offset < count; offset += 64)
    __builtin_prefetch(sample.bytes.data() + offset, /*rw=*/0, kToSecondLevel);
}

/// Prefetches the pages of the row kPagesAhead after row k, and the bytes of the row kRowsAhead after it.
void prefetch_after(const std::vector<RowWorker::Row>& rows, int64_t k, int64_t count) {
  if (k + kPagesAhead < count) prefetch_pages(rows[static_cast<size_t>(k + kPagesAhead)].sample);
  if (k + kRowsAhead < count) prefetch(rows[static_cast<size_t>(k + kRowsAhead)].sample);
}

}  // namespace

RowMaker::RowMaker(std::shared_ptr<const Dataset> dataset, Pipeline pipeline, const LoaderOptions& options)
    : RowMaker(dataset, std::move(pipeline), options, std::make_shared<const SampleOrder>(*dataset, options),
               /*mender=*/nullptr) {}

RowMaker::RowMaker(const RowMaker& other, Pipeline pipeline, const LoaderOptions& options)
    : RowMaker(other.dataset_, std::move(pipeline), options, other.samples_, other.mender_) {}

RowMaker::RowMaker(std::shared_ptr<const Dataset> dataset, Pipeline pipeline, const LoaderOptions& options,
                   std::shared_ptr<const SampleOrder> samples, std::shared_ptr<const Mender> mender)
    : dataset_(std::move(dataset)),
      views_(views_of(std::move(pipeline), options)),
      seed_(options.seed),
      shuffle_(options.shuffle),
      layout_(options.layout),
      emulated_load_ns_(options.emulated_load_ns),
      ends_emulated_load_(options.ends_emulated_load),
      leaves_out_(options.leaves_out),
      samples_(std::move(samples)),
      mender_(mender ? std::move(mender) : std::make_shared<const Mender>(*dataset_, *samples_, options)),
      extent_(views_.front().extent()),
      row_bytes_(rendered_bytes(options.layout, extent_)),
      makers_(makers_of(options.columns)),
      format_(std::make_shared<const BatchFormat>(partition().rows_per_rank(), extent_, layout_, mixes(),
                                                  made_columns(), views_.size() - 1)),
      are_held_(dataset_->room_shards() != UINT64_MAX),
      group_(rows_held_together(*dataset_, options, mixes(), RowWorker::kGroup)) {
  check_combinations(options, this->pipeline(), makers_);
}

std::vector<RowRenderer> RowMaker::views_of(Pipeline pipeline, const LoaderOptions& options) const {
  std::vector<RowRenderer> views;
  views.emplace_back(dataset_, std::move(pipeline), options);
  for (const auto& text : options.views) {
    Pipeline further = pipeline_of(text, *dataset_);
    if (further.batch_mix().kind != BatchMix::Kind::kNone)
      throw config_error(
          concat("views: ", in_quotes(text), " mixes rows of a batch; expected transforms of one sample"));
    views.emplace_back(dataset_, std::move(further), options, static_cast<int>(views.size()));
  }
  return views;
}

std::vector<ViewColumns> RowMaker::makers_of(const std::string& columns) const {
  std::vector<ColumnContext> contexts;
  for (const auto& view : views_) contexts.push_back({*dataset_, view.extent(), layout_});
  return make_view_columns(columns, contexts);
}

std::vector<Column> RowMaker::made_columns() const {
  std::vector<Column> columns;
  for (size_t view = 1; view < views_.size(); ++view)
    columns.push_back(pixel_column(view_name(view), views_[view].extent(), layout_));
  for (const auto& made : makers_) columns.insert(columns.end(), made.columns.begin(), made.columns.end());
  return columns;
}

KnownColumns RowMaker::columns_in(std::byte* block) const {
  KnownColumns columns{.block = block,
                       .pixels = format_->begin<std::byte>(block, Column::kImages),
                       .labels = format_->begin<int64_t>(block, Column::kLabels),
                       .ids = format_->begin<uint64_t>(block, Column::kIds),
                       .weights = format_->begin<float>(block, Column::kWeights),
                       .indices = reinterpret_cast<uint64_t*>(block + format_->indices_offset)};
  if (!format_->mixes) return columns;
  columns.second_labels = format_->begin<int64_t>(block, Column::kSecondLabels);
  columns.mix_weights = format_->begin<float>(block, Column::kMixWeights);
  return columns;
}

/// With rank-local shuffling the partners are this rank's own rows, because no other rank's shards are open here.
RowMaker::BatchContext RowMaker::context_of(int64_t epoch, int64_t index) const {
  BatchContext context{
      .epoch = epoch, .index = index, .rows = samples_->partition().rows(index), .order = samples_->order_of(epoch)};
  if (!mixes()) return context;
  const auto& rows = context.rows;
  context.mix = batch_plan(pipeline().batch_mix(), seed_, static_cast<uint32_t>(epoch), static_cast<uint64_t>(index),
                           is_rank_local() ? rows.count : rows.global_count, extent_.height, extent_.width);
  if (context.mix.mix_weight == 1) context.mix.kind = BatchMix::Kind::kNone;  // the partner would not be visible
  context.mix_row = rows.first_row;
  context.mix_position = rows.first_position - static_cast<uint64_t>(rows.first_row);
  return context;
}

void RowMaker::make(int64_t epoch, int64_t index, int64_t begin, int64_t end, std::byte* block,
                    RowWorker& worker) const {
  const BatchContext context = context_of(epoch, index);
  const KnownColumns columns = columns_in(block);
  const int64_t samples_end = std::min(end, context.rows.count);
  const ReleasedRows released(worker.rows, worker.partners, are_held_);
  for (int64_t row = begin; row < samples_end; row += group_) {
    make_group(context, row, std::min(samples_end, row + group_), columns, worker);
    released.release();
  }
  const int64_t padding = std::max(begin, context.rows.count);
  if (padding >= end) return;
  std::memset(columns.pixels + static_cast<size_t>(padding) * row_bytes_, 0,
              static_cast<size_t>(end - padding) * row_bytes_);
  std::fill(columns.labels + padding, columns.labels + end, int64_t{0});
  for (auto* const numbers : {columns.ids, columns.indices}) std::fill(numbers + padding, numbers + end, ~uint64_t{0});
  std::fill(columns.weights + padding, columns.weights + end, 0.0F);
  clear_columns(padding, end, block);
  if (columns.second_labels == nullptr) return;
  std::fill(columns.second_labels + padding, columns.second_labels + end, int64_t{0});
  std::fill(columns.mix_weights + padding, columns.mix_weights + end, 1.0F);
}

void RowMaker::make_group(const BatchContext& context, int64_t begin, int64_t end, const KnownColumns& columns,
                          RowWorker& worker) const {
  std::exception_ptr failure;
  const bool is_mixed = context.mix.kind != BatchMix::Kind::kNone;
  const int64_t found_count = find_rows(context, begin, end, worker, failure);
  int64_t made_count = is_mixed ? 2 * found_count : found_count;
  for (int64_t k = 0; k < found_count; ++k) {
    auto& row = worker.rows[static_cast<size_t>(k)];
    auto& partner = is_mixed ? worker.partners[static_cast<size_t>(k)] : row;
    prefetch_after(worker.rows, k, found_count);
    if (is_mixed) prefetch_after(worker.partners, k, found_count);
    const int64_t i = begin + k;
    std::byte* const output = columns.pixels + static_cast<size_t>(i) * row_bytes_;
    bool is_masked = false;
    if (row.is_left_out) {
      --made_count;
    } else if (row.is_corrupt || partner.is_corrupt) {
      is_masked = !mend(context, row, partner, i, nullptr, columns, worker);
    } else {
      try {
        make_whole(context, row, partner, i, columns, worker);
      } catch (const Error& error) {
        if (!mender_->is_forgiven(error)) throw;
        is_masked = !mend(context, row, partner, i, &error, columns, worker);
      }
    }
    if (is_masked) {
      std::memset(output, 0, row_bytes_);
      clear_columns(i, i + 1, columns.block);
    }
    columns.labels[i] = row.sample.label;
    columns.ids[i] = row.sample.id;
    columns.indices[i] = row.index;
    columns.weights[i] = is_masked ? 0.0F : 1.0F;
    if (columns.second_labels == nullptr) continue;
    columns.second_labels[i] = partner.sample.label;
    columns.mix_weights[i] = is_mixed ? context.mix.mix_weight : 1.0F;
  }
  worker.made_count.fetch_add(static_cast<uint64_t>(made_count), std::memory_order_relaxed);
  if (failure) std::rethrow_exception(failure);
}

/// Runs `body`, which reads the sample of a row, and then asks whether what it read came from the file: as read_from(),
/// without its cost per row.
template <class Body>
void RowMaker::reading(const RowWorker::Row& row, const Body& body) const {
  try {
    body();
  } catch (const Error&) {
    dataset_->check_file(row.index);
    throw;
  }
  if (has_map_faults()) dataset_->check_read(row.index);
}

/// Row i with its columns. Without a mix, `partner` is the row itself.
void RowMaker::make_whole(const BatchContext& context, const RowWorker::Row& row, const RowWorker::Row& partner,
                          int64_t i, const KnownColumns& columns, RowWorker& worker) const {
  std::byte* const output = columns.pixels + static_cast<size_t>(i) * row_bytes_;
  worker.views.resize(views_.size());
  for (size_t view = 1; view < views_.size(); ++view)
    worker.views[view].output = row_of(columns.block, column_of_view(view), i);
  &partner == &row ? make_row(context, row, output, worker) : make_mixed(context, row, partner, output, worker);
  if (makers_.empty()) return;
  // The last row that was rendered in a mix is the partner.
  if (&partner != &row) worker.views[0].plan = views_[0].plan_of(context.epoch, row);
  reading(row, [&] { make_columns(context, row, i, columns.block, worker); });
}

/// Makes row i where its sample or its partner is corrupt; returns whether it could be made with others.
bool RowMaker::mend(const BatchContext& context, RowWorker::Row& row, RowWorker::Row& partner, int64_t i,
                    const Error* error, const KnownColumns& columns, RowWorker& worker) const {
  const uint64_t position = context.rows.first_position + static_cast<uint64_t>(i);
  const bool is_mixed = &partner != &row;
  const uint64_t partner_position =
      is_mixed ? context.mix_position + static_cast<uint64_t>(context.mix.partner(context.mix_row + i)) : position;
  const bool is_made = mender_->mend(
      {context.epoch, context.index, i, row, partner, position, partner_position}, error,
      [&] { make_whole(context, row, partner, i, columns, worker); },
      [&](const RowWorker::Row& alone) { make_row(context, alone, worker.partner_pixels.data(), worker); });
  (is_made ? worker.substituted_count : worker.masked_count).fetch_add(1, std::memory_order_relaxed);
  return is_made;
}

/// Fills worker.rows, and in a mix worker.partners, from the data set, up to the first row that fails. `failure` then
/// holds its error. The rows before it must still be made: one of them may fail too, and would then be the first to
/// fail. Returns how many rows were found.
int64_t RowMaker::find_rows(const BatchContext& context, int64_t begin, int64_t end, RowWorker& worker,
                            std::exception_ptr& failure) const {
  // The indices are computed in loops of their own, so that in look_up() the processor can load the columns of several
  // samples at once.
  if (samples_->is_plain()) {
    for (int64_t row = begin; row < end; ++row) {
      auto& to = worker.rows[static_cast<size_t>(row - begin)];
      to.index = samples_->index_at(context.order, context.rows.first_position + static_cast<uint64_t>(row));
      to.copy = 0;
    }
  } else {
    for (int64_t row = begin; row < end; ++row)
      worker.rows[static_cast<size_t>(row - begin)].place_at(
          samples_->place_at(context.order, context.rows.first_position + static_cast<uint64_t>(row)));
  }
  const int64_t found_count = look_up(worker.rows, end - begin, worker, failure);
  if (context.mix.kind == BatchMix::Kind::kNone) return found_count;
  worker.partners.resize(RowWorker::kGroup);
  worker.partner_pixels.resize(row_bytes_);
  for (int64_t k = 0; k < found_count; ++k) {
    const int64_t partner = context.mix.partner(context.mix_row + begin + k);
    worker.partners[static_cast<size_t>(k)].place_at(
        samples_->place_at(context.order, context.mix_position + static_cast<uint64_t>(partner)));
  }
  return look_up(worker.partners, found_count, worker, failure);
}

/// Marks a row whose sample is corrupt; false where its shard cannot be opened, which is more than a sample.
bool RowMaker::marked(RowWorker::Row& row, const Error& error) const {
  try {
    row.sample = dataset_->at(row.index);
  } catch (const Error&) {
    return false;
  }
  mender_->mark(row, error);
  return true;
}

int64_t RowMaker::look_up(std::vector<RowWorker::Row>& rows, int64_t count, RowWorker& worker,
                          std::exception_ptr& failure) const {
  const int64_t start_ns = now_ns();
  int64_t i = 0;
  for (; i < count; ++i) {
    auto& row = rows[static_cast<size_t>(i)];
    row.is_corrupt = false;
    row.is_left_out = leaves_out_ && leaves_out_(row.index);
    try {
      row.sample = row.is_left_out ? dataset_->at(row.index) : dataset_->checked_at(row.index);
    } catch (const Error& error) {
      failure = std::current_exception();
      if (!mender_->is_forgiven(error) || !marked(row, error)) break;
      failure = nullptr;
    }
  }
  uint64_t byte_count = 0;
  for (int64_t k = 0; k < i; ++k)
    if (const auto& row = rows[static_cast<size_t>(k)]; !row.is_left_out) byte_count += row.sample.bytes.size();
  worker.sample_bytes.fetch_add(byte_count, std::memory_order_relaxed);
  const int64_t read_count = std::max<int64_t>(i, 1);
  worker.read.add((now_ns() - start_ns) / read_count, static_cast<uint64_t>(read_count));
  return i;
}

/// The partner is decoded and rendered again for every row that it is mixed into, because its own row may be in another
/// rank's part, or in this part but made by another worker.
void RowMaker::make_mixed(const BatchContext& context, const RowWorker::Row& row, const RowWorker::Row& partner,
                          std::byte* output, RowWorker& worker) const {
  make_row(context, row, output, worker);
  make_row(context, partner, worker.partner_pixels.data(), worker, output);
}

/// Where `blended` is given, the row is a partner: it is rendered to `output` and then mixed into `blended`.
void RowMaker::make_row(const BatchContext& context, const RowWorker::Row& row, std::byte* output, RowWorker& worker,
                        std::byte* blended) const {
  const bool is_timed = --worker.until_timed <= 0;  // below 0: the timed row before this one failed
  Laps laps(is_timed ? static_cast<uint64_t>(worker.timed_every) : 0);
  reading(row, [&] { render_row(context, row, output, worker, laps); });
  if (blended != nullptr) mix_row(context.mix, layout_, extent_, output, blended);
  emulate_load();
  laps.end_of(worker.render);
  if (!is_timed) return;
  laps.write();
  worker.timed_every = laps.total_ns() > kAlwaysTimedNs ? 1 : kTimedEvery;
  worker.until_timed = worker.timed_every;
}

void RowMaker::make_columns(const BatchContext& context, const RowWorker::Row& row, int64_t i, std::byte* block,
                            const RowWorker& worker) const {
  size_t number = format_->made_begin() + views_.size() - 1;
  std::array<std::byte*, ColumnMaker::kMostColumns> cells{};
  for (const auto& [maker, view, columns] : makers_) {
    const size_t pixels = column_of_view(view);
    const ColumnRow whole{row.sample,
                          row.index,
                          context.epoch,
                          worker.views[view].plan,
                          {row_of(block, pixels, i), format_->columns[pixels].row_bytes()}};
    for (size_t c = 0; c < columns.size(); ++c, ++number) cells[c] = row_of(block, number, i);
    maker->make(whole, {cells.data(), columns.size()});
  }
}

void RowMaker::clear_columns(int64_t begin, int64_t end, std::byte* block) const {
  for (size_t number = format_->made_begin(); number < format_->columns.size(); ++number)
    std::memset(row_of(block, number, begin), 0,
                static_cast<size_t>(end - begin) * format_->columns[number].row_bytes());
}

void RowMaker::emulate_load() const {
  constexpr int64_t kSliceNs = 10'000'000;
  for (int64_t left_ns = emulated_load_ns_; left_ns > 0; left_ns -= kSliceNs) {
    if (ends_emulated_load_ && ends_emulated_load_()) return;
    burn_cpu(std::min(left_ns, kSliceNs));
  }
}

/// The caller ends the lap of the render stage.
void RowMaker::render_row(const BatchContext& context, const RowWorker::Row& row, std::byte* output, RowWorker& worker,
                          Laps& laps) const {
  if (views_.size() > 1) {
    worker.views[0].output = output;
    return render_views(context, row, worker, laps);
  }
  const RowRenderer& renderer = views_.front();
  const Plan plan = renderer.plan_of(context.epoch, row);
  if (!makers_.empty()) worker.views[0].plan = plan;
  laps.end_of(worker.plan);
  renderer.render_row(plan, row, output, worker.scratch, [&] { laps.end_of(worker.decode); });
}

/// What several views look at is decoded once (share_regions).
void RowMaker::render_views(const BatchContext& context, const RowWorker::Row& row, RowWorker& worker,
                            Laps& laps) const {
  auto& parts = worker.views;
  for (size_t view = 0; view < views_.size(); ++view)
    views_[view].want(views_[view].plan_of(context.epoch, row), row, parts[view]);
  share_regions(parts, views_.front().costs_what_is_above(row.sample));
  laps.end_of(worker.plan);
  for (size_t leader = 0; leader < parts.size(); ++leader) {
    if (parts[leader].leader != leader) continue;
    const Picture picture = views_[leader].decode(row, parts[leader].region, parts[leader].dct_scale, worker.scratch);
    laps.end_of(worker.decode);
    for (size_t view = leader; view < parts.size(); ++view)
      if (parts[view].leader == leader) views_[view].render_plan(picture, parts[view].scaled, parts[view].output);
    laps.end_of(worker.render);
  }
}

}  // namespace penstock::detail
