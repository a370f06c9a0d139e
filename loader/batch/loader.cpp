// Loader: options, slots and epochs around the ring and the row maker.
#include "loader/batch/loader.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/batch/read_ahead.h"
#include "loader/batch/ring.h"
#include "loader/batch/slot_pool.h"
#include "loader/files/map_guard.h"
#include "loader/rows/histogram.h"
#include "loader/rows/sized_makers.h"

namespace penstock {
namespace {

constexpr int kMaxWorkers = 1024, kMaxPrefetch = 4096;
constexpr int64_t kMaxEpoch = int64_t{1} << 32;  // an epoch is 32 bits of the random stream's counter
constexpr size_t kSlotAlignment = 64;

LoaderOptions checked(LoaderOptions options) {
  const auto demand = [](bool is_met, const char* name, int64_t value, const std::string& expected) {
    if (!is_met) throw config_error(concat("loader: ", name, " is ", value, "; expected ", expected));
  };
  demand(options.workers >= 0, "workers", options.workers, "0 or more");
  demand(options.workers <= kMaxWorkers, "workers", options.workers, concat(kMaxWorkers, " or fewer"));
  demand(options.prefetch >= 1, "prefetch", options.prefetch, "1 or more");
  demand(options.prefetch <= kMaxPrefetch, "prefetch", options.prefetch, concat(kMaxPrefetch, " or less"));
  demand(options.batch_size >= 1, "batch size", options.batch_size, "1 or more");
  demand(options.world_size >= 1, "world size", options.world_size, "1 or more");
  demand(options.batch_size >= options.world_size, "batch size", options.batch_size,
         concat(options.world_size, " or more, one sample for each rank"));
  demand(options.rank >= 0 && options.rank < options.world_size, "rank", options.rank,
         concat("0 to ", options.world_size - 1));
  demand(options.emulated_load_ns >= 0, "emulated load", options.emulated_load_ns, "0 ns or more");
  if (!(options.most_corrupt >= 0 && options.most_corrupt <= 1))
    throw config_error(concat("loader: most corrupt is ", options.most_corrupt, "; expected a share of 0 to 1"));
  demand(options.epoch_count >= -1, "epoch count", options.epoch_count, "-1 (no end) or more");
  if (!options.allocator.allocate) {
    options.allocator.allocate = [](size_t byte_count) { return std::aligned_alloc(kSlotAlignment, byte_count); };
    options.allocator.release = [](void* memory, size_t) { std::free(memory); };
  }
  return options;
}

/// The positions that the rows of a batch are made of: with a mix partners may be rows of any rank.
void add_indices(const detail::RowMaker& maker, const EpochOrder& order, int64_t batch,
                 std::vector<uint64_t>& indices) {
  const auto rows = maker.partition().rows(batch);
  const bool is_mixed = maker.pipeline().batch_mix().kind != BatchMix::Kind::kNone;
  const bool is_whole = is_mixed && !maker.is_rank_local();
  const uint64_t begin = rows.first_position - static_cast<uint64_t>(is_whole ? rows.first_row : 0);
  const auto count = static_cast<uint64_t>(is_whole ? rows.global_count : rows.count);
  for (uint64_t position = begin; position < begin + count; ++position)
    indices.push_back(maker.samples().place_at(order, position).index);
}

/// Fetches the samples of the first two batches, from `first` on and below `limit`, before their shards
/// (Dataset::fetch_rows()). Both are counted over epochs. Returns at once where nothing is far away.
void fetch_first_batches(const detail::RowMaker& maker, int64_t first, int64_t limit,
                         const std::function<void()>& on_wait) {
  constexpr int64_t kFirstBatches = 2;
  if (maker.dataset().room_shards() == UINT64_MAX) return;
  const int64_t count = maker.partition().batch_count();
  std::vector<uint64_t> indices;
  for (int64_t sequence = first; sequence < std::min(first + kFirstBatches, limit); ++sequence)
    add_indices(maker, maker.samples().order_of(sequence / count), sequence % count, indices);
  maker.dataset().fetch_rows(indices, on_wait);
}

}  // namespace

namespace detail {

/// The blocks that the slots of a ring have at the moment.
class Slots {
 public:
  Slots(std::shared_ptr<SlotPool> pool, int count) : Slots(std::move(pool)) {
    blocks_.reserve(static_cast<size_t>(count));
    for (int slot = 0; slot < count; ++slot) blocks_.push_back(pool_->take());
  }
  ~Slots() {  // also runs when the constructor throws half-way, because that one delegates
    for (auto* const block : blocks_) pool_->give_back(block);
  }
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  std::byte* operator[](int slot) const { return blocks_[static_cast<size_t>(slot)]; }
  /// Puts `block` in the place of the slot's block, and returns that one.
  std::byte* exchange(int slot, std::byte* block) { return std::exchange(blocks_[static_cast<size_t>(slot)], block); }
  const std::shared_ptr<SlotPool>& pool() const { return pool_; }

 private:
  explicit Slots(std::shared_ptr<SlotPool> pool) : pool_(std::move(pool)) {}

  std::shared_ptr<SlotPool> pool_;
  std::vector<std::byte*> blocks_;
};

}  // namespace detail

struct Loader::State {
  State(const std::shared_ptr<const Dataset>& dataset, const Pipeline& pipeline, LoaderOptions given)
      : options(checked(std::move(given))),
        makers(dataset, pipeline, options),
        batches(makers.any().partition().batch_count()),
        read_ahead(detail::reads_ahead(*dataset, makers.any().samples(), options)
                       ? std::make_unique<detail::ReadAhead>(*dataset, makers.any().samples(), options)
                       : nullptr),
        slots(make_pool(), slot_count()),
        workers(static_cast<size_t>(std::max(options.workers, 1))),
        ring({.workers = options.workers,
              .prefetch = options.prefetch,
              .rows = makers.any().partition().rows_per_rank(),
              .held = held_count(),
              .on_wait = options.on_wait},
             [this](int64_t sequence, int slot, int64_t begin, int64_t end, int worker) {
               const int64_t start_ns = options.on_chunk ? now_ns() : 0;
               const int64_t of_epoch = sequence / batches;
               makers.of(of_epoch).make(of_epoch, sequence % batches, begin, end, slots[slot],
                                        workers[static_cast<size_t>(worker)]);
               if (options.on_chunk)
                 options.on_chunk({worker, of_epoch, sequence % batches, begin, end, start_ns, now_ns()});
             }) {}

  /// Batches that are given away leave nothing in the ring, so that it needs no slots for them.
  int held_count() const { return options.gives_batches_away ? 0 : detail::Ring::kHeldSlots; }
  int slot_count() const { return options.prefetch + held_count(); }
  std::shared_ptr<detail::SlotPool> make_pool() const {
    return std::make_shared<detail::SlotPool>(options.allocator, makers.most_block_bytes(),
                                              options.prefetch + detail::Ring::kHeldSlots);
  }

  LinkStats link_before = link_stats();  // first: making what follows may fetch
  LoaderOptions options;
  detail::SizedMakers makers;
  int64_t batches;                                // per epoch
  std::unique_ptr<detail::ReadAhead> read_ahead;  // null: nothing is read ahead
  detail::Slots slots;
  std::vector<detail::RowWorker> workers;
  int64_t start_ns = now_ns();
  detail::Histogram wait;
  std::atomic<uint64_t> batch_count{0}, ready_count{0};
  int64_t row_count = 0, corrupt_count = 0;  // that next() has returned
  int64_t epoch = -1;                        // -1: no epoch was started
  int64_t epoch_end = -1;                    // number of the batch after its last one, counted over epochs
  int64_t made_end = 0;                      // number of the batch after the last one that is made
  bool has_ended = false;                    // next() has said how the epoch ended
  detail::Ring ring;                         // must be last, because its workers use all of the above
};

struct Batch::Handle {
  Handle(Loader::State& state, int64_t sequence)
      : pool(state.slots.pool()),
        epoch(sequence / state.batches),
        index(sequence % state.batches),
        columns(state.makers.of(epoch).format()),
        rows(state.makers.any().partition().rows(index)) {}
  ~Handle() {
    if (state != nullptr)
      state->ring.release(slot);
    else if (block != nullptr)
      pool->give_back(block);
  }

  const detail::BatchFormat& format() const { return *columns; }
  std::span<std::byte> column(size_t number) const {
    return {block + format().offsets[number],
            static_cast<size_t>(format().rows) * format().columns[number].row_bytes()};
  }
  std::span<uint64_t> indices() const {
    return {reinterpret_cast<uint64_t*>(block + format().indices_offset), static_cast<size_t>(format().rows)};
  }
  /// Nothing for a known column that this batch has not.
  template <class T>
  std::span<const T> known(Column::Known number) const {
    if (!format().has(number)) return {};
    return {format().begin<T>(block, number), static_cast<size_t>(format().rows)};
  }

  std::shared_ptr<detail::SlotPool> pool;  // shared: a batch that was given away may outlive its loader
  int64_t epoch, index;
  std::shared_ptr<const detail::BatchFormat> columns;  // shared for the same reason
  Partition::Rows rows;
  int64_t corrupt_count = 0;
  std::byte* block = nullptr;
  Loader::State* state = nullptr;  // null: the batch has left its slot
  int slot = 0;
};

Batch::Batch(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;
Batch::~Batch() = default;

int64_t Batch::epoch() const { return handle_->epoch; }
int64_t Batch::index() const { return handle_->index; }
int64_t Batch::rows() const { return handle_->format().rows; }
int64_t Batch::count() const { return handle_->rows.count; }
int64_t Batch::global_count() const { return handle_->rows.global_count; }
int64_t Batch::corrupt_count() const { return handle_->corrupt_count; }
uint64_t Batch::first_position() const { return handle_->rows.first_position; }
Extent Batch::extent() const { return handle_->format().extent; }
Layout Batch::layout() const { return handle_->format().layout; }
std::span<const std::byte> Batch::pixels() const { return column(Column::kImages); }
std::span<const int64_t> Batch::labels() const { return handle_->known<int64_t>(Column::kLabels); }
std::span<const uint64_t> Batch::ids() const { return handle_->known<uint64_t>(Column::kIds); }
std::span<const float> Batch::weights() const { return handle_->known<float>(Column::kWeights); }
std::span<const uint64_t> Batch::indices() const { return handle_->indices(); }
std::span<const int64_t> Batch::second_labels() const { return handle_->known<int64_t>(Column::kSecondLabels); }
std::span<const float> Batch::mix_weights() const { return handle_->known<float>(Column::kMixWeights); }

const std::vector<Column>& Batch::columns() const { return handle_->format().columns; }
std::span<const std::byte> Batch::column(size_t number) const { return handle_->column(number); }
std::span<std::byte> Batch::column(size_t number) { return handle_->column(number); }
std::span<uint64_t> Batch::indices() { return handle_->indices(); }

bool Batch::is_picture(size_t number) const {
  const size_t begin = handle_->format().made_begin();
  return number == Column::kImages || (number >= begin && number < begin + handle_->format().further_views);
}

size_t Batch::column_number(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& column : columns()) {
    if (column.name == name) return names.size();
    names.push_back(column.name);
  }
  throw config_error(unknown_name("column", name, names));
}

void check_corrupt_share(const std::string& where, int64_t corrupt_count, int64_t row_count, double most) {
  constexpr int64_t kLeastRows = 1000;
  if (row_count < kLeastRows || static_cast<double>(corrupt_count) <= most * static_cast<double>(row_count)) return;
  throw corrupt_error(concat(where, ": ", grouped(static_cast<uint64_t>(corrupt_count)), " of ",
                             grouped(static_cast<uint64_t>(row_count)), " rows are of corrupt samples, more than ",
                             most * 100, " %; expected fewer: see what shardprep verify says of the data set"));
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, Pipeline pipeline, LoaderOptions options)
    : state_(std::make_unique<State>(dataset, pipeline, std::move(options))) {}
Loader::~Loader() = default;

void Loader::start_epoch(int64_t epoch, int64_t first_batch) {
  auto& state = *state_;
  if (epoch < 0 || epoch >= kMaxEpoch)
    throw config_error(concat("loader: epoch is ", epoch, "; expected 0 to ", kMaxEpoch - 1));
  if (first_batch < 0 || first_batch > state.batches)
    throw config_error(concat("loader: first batch is ", first_batch, "; expected 0 to ", state.batches));
  int64_t end = 0, limit = 0;
  if (__builtin_mul_overflow(epoch + 1, state.batches, &end) ||
      __builtin_mul_overflow(state.options.epoch_count, state.batches, &limit))
    throw config_error(
        concat("loader: epoch ", epoch, " of ", state.batches, " batches; expected under 2^63 batches in all"));
  if (limit < 0) limit = INT64_MAX;
  detail::keep_map_handler();
  const int64_t first = end - state.batches + first_batch;
  const bool is_ahead = state.epoch >= 0 && first == state.ring.next_sequence();
  state.epoch = epoch;
  state.epoch_end = end;
  state.has_ended = false;
  state.made_end = state.batches == 0 ? 0 : std::max(end, limit);
  if (!is_ahead) fetch_first_batches(state.makers.any(), first, state.made_end, state.options.on_wait);
  if (state.read_ahead) state.read_ahead->go_to(first, state.made_end);
  state.ring.restart(first, state.made_end);
}

std::optional<Batch> Loader::next() {
  auto& state = *state_;
  if (state.epoch < 0)
    throw bug_error(concat("loader: next() in epoch ", state.epoch, "; expected start_epoch() before it"));
  const int64_t sequence = state.ring.next_sequence();
  if (sequence == state.epoch_end) {
    // Once: a loop that goes on after errors would otherwise never come to the end.
    if (!std::exchange(state.has_ended, true)) state.makers.any().dataset().check_files();
    return std::nullopt;
  }
  detail::keep_map_handler();  // before any slot goes back, so that workers that go on have it
  auto handle = std::make_unique<Batch::Handle>(state, sequence);
  // The memory that the slot gets in exchange is there first: without it no batch is taken, and none is lost.
  if (state.options.gives_batches_away) handle->block = handle->pool->take();
  const int64_t start_ns = now_ns();
  const auto taken = state.ring.take();
  state.wait.add(now_ns() - start_ns);
  if (state.read_ahead) state.read_ahead->go_to(sequence + 1, state.made_end);
  state.batch_count.fetch_add(1, std::memory_order_relaxed);
  if (taken.was_ready) state.ready_count.fetch_add(1, std::memory_order_relaxed);
  if (state.options.gives_batches_away) {
    handle->block = state.slots.exchange(taken.slot, handle->block);
    state.ring.release(taken.slot);
  } else {
    handle->block = state.slots[taken.slot];
    handle->state = &state;
    handle->slot = taken.slot;
  }
  state.row_count += handle->rows.count;
  state.corrupt_count += handle->corrupt_count = state.makers.any().corrupt_rows().take(handle->epoch, handle->index);
  check_corrupt_share("loader", state.corrupt_count, state.row_count, state.options.most_corrupt);
  return Batch(std::move(handle));
}

int64_t Loader::batches_per_epoch() const { return state_->batches; }
uint64_t Loader::samples_per_epoch() const { return state_->makers.any().partition().sample_count(); }
const SampleOrder& Loader::order() const { return state_->makers.any().samples(); }
Extent Loader::extent() const { return state_->makers.largest(); }
const Pipeline& Loader::pipeline(int64_t epoch) const { return state_->makers.of(epoch).pipeline(); }
std::vector<std::string> Loader::warnings() const { return state_->makers.any().warnings(); }
const LoaderOptions& Loader::options() const { return state_->options; }
size_t Loader::slot_bytes() const { return state_->slots.pool()->byte_count(); }

void LoaderStatistics::find_storage_waits() {
  const bool has_read =
      std::any_of(workers.begin(), workers.end(), [](const Worker& worker) { return worker.major_faults > 0; });
  for (auto& worker : workers)
    worker.storage_ms = has_read ? std::max(0.0, worker.busy_ms - worker.cpu_ms - worker.queued_ms) : 0;
  const double waited_ms = storage().total_ms;
  if (waited_ms <= 0 || link.stall_ms <= 0) return;
  for (auto& worker : workers) worker.storage_ms *= std::max(0.0, 1 - link.stall_ms / waited_ms);
}

LoaderStatistics::Worker LoaderStatistics::all_workers() const {
  Worker all;
  for (const auto& worker : workers) {
    all.busy_ms += worker.busy_ms;
    all.cpu_ms += worker.cpu_ms;
    all.queued_ms += worker.queued_ms;
    all.storage_ms += worker.storage_ms;
    all.storage_bytes += worker.storage_bytes;
  }
  return all;
}

LoaderStatistics::StageTime LoaderStatistics::storage() const { return {read.count, all_workers().storage_ms, 0}; }

LoaderStatistics Loader::statistics() const {
  const auto stage_of = [](const detail::DurationSum& sum, uint64_t count) {
    return LoaderStatistics::StageTime{count, sum.mean_ns() * static_cast<double>(count) * 1e-6,
                                       sum.quantile_ns(0.99) * 1e-3};
  };
  detail::DurationSum read, plan, decode, render, wait;
  LoaderStatistics statistics;
  uint64_t made_count = 0;
  const auto times = state_->ring.worker_times();
  for (size_t i = 0; i < times.size(); ++i) {
    const auto& worker = state_->workers[i];
    const auto count = worker.made_count.load(std::memory_order_relaxed);
    const auto own_ms = [&](const detail::Histogram& stage, detail::DurationSum& all) {
      detail::DurationSum own;
      stage.add_to(own);
      stage.add_to(all);
      return stage_of(own, count).total_ms;
    };
    statistics.workers.push_back({.read_ms = own_ms(worker.read, read),
                                  .plan_ms = own_ms(worker.plan, plan),
                                  .decode_ms = own_ms(worker.decode, decode),
                                  .render_ms = own_ms(worker.render, render),
                                  .busy_ms = ms_of(times[i].busy_ns),
                                  .idle_ms = ms_since(state_->start_ns) - ms_of(times[i].busy_ns),
                                  .cpu_ms = ms_of(times[i].cpu_ns),
                                  .queued_ms = ms_of(times[i].queued_ns),
                                  .major_faults = static_cast<uint64_t>(times[i].storage.major_faults),
                                  .storage_bytes = static_cast<uint64_t>(times[i].storage.read_bytes)});
    made_count += count;
    statistics.sample_bytes += worker.sample_bytes.load(std::memory_order_relaxed);
    statistics.masked_count += worker.masked_count.load(std::memory_order_relaxed);
    statistics.substituted_count += worker.substituted_count.load(std::memory_order_relaxed);
  }
  statistics.link = since(state_->link_before, link_stats());
  statistics.find_storage_waits();
  state_->wait.add_to(wait);
  statistics.read = stage_of(read, made_count);
  statistics.plan = stage_of(plan, made_count);
  statistics.decode = stage_of(decode, made_count);
  statistics.render = stage_of(render, made_count);
  statistics.wait = stage_of(wait, wait.weight);
  statistics.batch_count = state_->batch_count.load(std::memory_order_relaxed);
  statistics.ready_count = state_->ready_count.load(std::memory_order_relaxed);
  if (!state_->read_ahead) return statistics;
  statistics.read_ahead_count = state_->read_ahead->read_count();
  statistics.dropped_count = state_->read_ahead->dropped_count();
  return statistics;
}

}  // namespace penstock
