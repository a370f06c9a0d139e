// Heartbeat: a thread for each rank, which alone may block in the store.
#include "train/rendezvous/heartbeat.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "core/text.h"
#include "train/rendezvous/awake_clock.h"
#include "train/rendezvous/store_rendezvous.h"

namespace penstock::detail {
namespace {

using std::chrono::seconds, std::chrono::milliseconds;

/// So that nobody falls silent while this process is stopped.
struct StopClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<StopClock, duration>;
  static constexpr bool is_steady = true;
  static time_point now() { return time_point(duration(awake_ns())); }
};

constexpr milliseconds kRoundEvery{500};
constexpr seconds kSilence{2};  // four rounds: a rank on busy cores is late, not silent
constexpr seconds kLongSilence{10};
constexpr seconds kExplainTime{4};  // silence may begin just before a collective fails
constexpr seconds kFarewell{2};
const char* const kReason = "reason";
const char* const kLeft = "left";

std::string row_key(int rank) { return concat("roll/", rank); }

int64_t seconds_since(StopClock::time_point time) {
  return std::chrono::duration_cast<seconds>(StopClock::now() - time).count();
}

/// What is said of one rank, or of several.
std::string plural(const std::vector<int>& ranks, const std::string& of_one, const std::string& of_several) {
  return ranks.size() == 1 ? of_one : of_several;
}

}  // namespace

struct Heartbeat::State {
  struct Row {
    std::string text;  // "<round> <step> <collectives>", or kLeft
    int64_t step = 0, collectives = 0;
    StopClock::time_point changed = StopClock::now();
  };

  int rank = 0, world_size = 1;
  std::string launcher_place;
  std::atomic<int64_t> step{0}, collectives{0};

  Mutex mutex;
  CondVar changed;
  std::vector<Row> rows PENSTOCK_GUARDED_BY(mutex);                                // one entry per rank
  std::string own_reason PENSTOCK_GUARDED_BY(mutex);                               // what this rank would end all with
  std::string reason PENSTOCK_GUARDED_BY(mutex);                                   // what all end with
  StopClock::time_point last_round PENSTOCK_GUARDED_BY(mutex) = StopClock::now();  // that was complete
  bool is_told PENSTOCK_GUARDED_BY(mutex) = false;  // every other rank that is not silent knows the reason
  bool is_store_gone PENSTOCK_GUARDED_BY(mutex) = false;
  bool stops PENSTOCK_GUARDED_BY(mutex) = false;
  bool has_stopped PENSTOCK_GUARDED_BY(mutex) = false;

  bool is_silent(int other, seconds silence = kSilence) const PENSTOCK_REQUIRES(mutex) {
    return other != rank && rows[static_cast<size_t>(other)].changed + silence < StopClock::now();
  }

  void read_row(int other, const std::string& text) PENSTOCK_REQUIRES(mutex) {
    Row& row = rows[static_cast<size_t>(other)];
    if (row.text == text) return;
    row.text = text;
    row.changed = StopClock::now();
    int64_t round = 0;
    std::istringstream(text) >> round >> row.step >> row.collectives;
  }

  bool is_store_silent(seconds silence = kSilence) const PENSTOCK_REQUIRES(mutex) {
    return is_store_gone || last_round + silence < StopClock::now();
  }

  /// Ranks that say nothing any more, as far as the store can tell.
  std::vector<int> silent_ranks(seconds silence = kSilence) const PENSTOCK_REQUIRES(mutex) {
    std::vector<int> silent;
    for (int other = 0; other < world_size; ++other)
      if (is_silent(other, silence) && rows[static_cast<size_t>(other)].text != kLeft) silent.push_back(other);
    return silent;
  }

  std::string late(const std::vector<int>& ranks, int waited_seconds) const {
    const int64_t mine = step.load();
    return concat(ranks_text(ranks), mine > 0 ? concat(" did not come past step ", mine) : " did not follow",
                  waited_seconds > 0 ? concat(" within ", waited_seconds, " s") : std::string());
  }

  std::string blame_left() const PENSTOCK_REQUIRES(mutex) {
    std::vector<int> left;
    for (int other = 0; other < world_size; ++other)
      if (rows[static_cast<size_t>(other)].text == kLeft) left.push_back(other);
    if (left.empty()) return "";
    return concat(ranks_text(left), plural(left, " has left; expected it", " have left; expected them"),
                  " to stay until all ranks are done");
  }

  /// Whoever keeps the store, when it does not answer: nothing is known of the other ranks then.
  std::string blame_store(int waited_seconds) const PENSTOCK_REQUIRES(mutex) {
    if (!is_store_silent()) return "";
    const int64_t silence = seconds_since(last_round);
    if (launcher_place.empty()) return silence_text({0}, silence, waited_seconds);
    return concat("the store at ", launcher_place, " has not answered for ", silence,
                  " s; expected the launcher to keep it until all ranks are done");
  }

  std::string blame_silent(int waited_seconds) const PENSTOCK_REQUIRES(mutex) {
    const std::vector<int> ranks = silent_ranks();
    if (ranks.empty()) return "";
    int64_t silence = 0;
    for (const int other : ranks) silence = std::max(silence, seconds_since(rows[static_cast<size_t>(other)].changed));
    return silence_text(ranks, silence, waited_seconds);
  }

  /// Where this process was stopped a moment ago. Who has gone on without it, or has ended meanwhile, is not known.
  static std::string blame_pause() {
    const Pause pause = last_pause();
    const bool is_recent = pause.ns > 0 && awake_ns() - pause.end_ns < std::chrono::nanoseconds(kLongSilence).count();
    if (!is_recent) return "";
    return concat("this rank was stopped for ", pause.ns / 1'000'000'000,
                  " s, and another one has not come since; expected all ranks to be stopped, and to go on, together");
  }

  std::string silence_text(const std::vector<int>& ranks, int64_t silence, int waited_seconds) const {
    return concat(late(ranks, waited_seconds), ", last heard of ", silence, " s ago; expected ",
                  plural(ranks, "it to run, it was killed or stopped, or its machine is gone",
                         "them to run, they were killed or stopped, or their machines are gone"));
  }

  /// Ranks that live: `peer`, or without one those that have begun fewer collectives than this one. Nobody as long as
  /// one of them has not been heard of after `since`: it may be falling silent.
  std::string blame_slow(int waited_seconds, int peer, StopClock::time_point since) const PENSTOCK_REQUIRES(mutex) {
    std::vector<int> behind;
    if (peer >= 0) behind.push_back(peer);
    for (int other = 0; other < world_size; ++other)
      if (peer < 0 && other != rank && rows[static_cast<size_t>(other)].collectives < collectives.load())
        behind.push_back(other);
    const auto is_unheard = [&](int other)
                                PENSTOCK_REQUIRES(mutex) { return rows[static_cast<size_t>(other)].changed <= since; };
    if (behind.empty() || std::ranges::any_of(behind, is_unheard)) return "";
    const int64_t step = rows[static_cast<size_t>(behind[0])].step;
    return concat(late(behind, waited_seconds),
                  plural(behind, ", it is alive", concat(", they are alive, rank ", behind[0])), " at step ", step,
                  "; expected ranks of about equal speed, or a longer --timeout");
  }
};

namespace {

/// The reason that all ranks end with, as far as there is one; this rank's own where it was the first.
std::string exchange_reason(SignedStore& store, const std::string& own) {
  return own.empty() ? store.find(kReason).value_or("") : store.set_first(kReason, own);
}

}  // namespace

Heartbeat::Heartbeat(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                     const std::string& launcher_place, const std::string& token)
    : state_(std::make_shared<State>()) {
  state_->rank = rank;
  state_->world_size = world_size;
  state_->launcher_place = launcher_place;
  state_->rows.resize(static_cast<size_t>(world_size));
  std::thread([state = state_, given = SignedStore(store, token)]() mutable { run(state, std::move(given)); }).detach();
}

Heartbeat::~Heartbeat() {
  const MutexLock lock(state_->mutex);
  state_->stops = true;
  state_->changed.notify_all();
  // A thread that a stopped rank 0 leaves without an answer ends with the process.
  state_->changed.wait_for(state_->mutex, kFarewell,
                           [&]() PENSTOCK_REQUIRES(state_->mutex) { return state_->has_stopped; });
}

void Heartbeat::at_step(int64_t step) { state_->step.store(step, std::memory_order_relaxed); }
void Heartbeat::begin_collective() { state_->collectives.fetch_add(1, std::memory_order_relaxed); }

void Heartbeat::run(const std::shared_ptr<State>& state, SignedStore given) {
  pthread_setname_np(pthread_self(), "heartbeat");
  const int world_size = state->world_size;
  bool has_heard = false;
  std::set<int> known;  // ranks that have a row in the store
  try {
    SignedStore store(given.raw().clone(), given.token());
    MutexLock lock(state->mutex);
    for (int64_t round = 1;; ++round) {
      const bool stops = state->stops;
      const std::string own_reason = state->own_reason;
      lock.unlock();
      store.set(row_key(state->rank),
                stops ? kLeft : concat(round, " ", state->step.load(), " ", state->collectives.load()));
      for (int rank = 0; rank < world_size; ++rank)
        if (!known.contains(rank) && store.raw().check({row_key(rank)})) known.insert(rank);
      std::vector<std::string> keys;
      for (const int rank : known) keys.push_back(row_key(rank));
      const auto rows = store.read(keys);
      const std::string reason = exchange_reason(store, own_reason);
      const int64_t told = store.raw().add("told", !reason.empty() && !has_heard ? 1 : 0);
      has_heard = !reason.empty();
      lock.lock();
      auto row = rows.begin();
      for (const int rank : known)
        if (const auto& text = *row++) state->read_row(rank, *text);
      state->reason = reason;
      const auto silent = state->silent_ranks().size();
      state->is_told = has_heard && told + static_cast<int64_t>(silent) >= world_size;
      state->last_round = StopClock::now();
      state->changed.notify_all();
      if (stops) break;
      const auto pause = has_heard ? kRoundEvery / 10 : kRoundEvery;
      state->changed.wait_for(state->mutex, pause, [&]() PENSTOCK_REQUIRES(state->mutex) {
        return state->stops || (!has_heard && state->own_reason != own_reason);
      });
    }
  } catch (const std::exception&) {
    const MutexLock lock(state->mutex);
    state->is_store_gone = true;
  }
  given = SignedStore({}, "");
  const MutexLock lock(state->mutex);
  state->has_stopped = true;
  state->changed.notify_all();
}

std::string Heartbeat::explain(int waited_seconds, int peer) {
  const auto began = StopClock::now(), deadline = began + kExplainTime;
  const MutexLock lock(state_->mutex);
  std::string found;
  while (found.empty()) {
    if (!state_->reason.empty()) return state_->reason;
    found = state_->blame_pause();
    if (found.empty()) found = state_->blame_left();
    if (found.empty()) found = state_->blame_store(waited_seconds);
    if (found.empty()) found = state_->blame_silent(waited_seconds);
    const bool is_over = StopClock::now() >= deadline;
    if (found.empty() && (is_over || waited_seconds > 0))
      found = state_->blame_slow(waited_seconds, peer, is_over ? StopClock::time_point::min() : began);
    if (!found.empty() || is_over) break;
    state_->changed.wait_for(state_->mutex, kRoundEvery / 10);
  }
  if (!found.empty()) state_->own_reason = found;
  state_->changed.notify_all();
  return found;
}

bool Heartbeat::has_lost_a_rank() const {
  const MutexLock lock(state_->mutex);
  return !state_->reason.empty() || !state_->blame_left().empty() || state_->is_store_silent(kLongSilence) ||
         !state_->silent_ranks(kLongSilence).empty();
}

void Heartbeat::end(const std::string& reason) {
  const MutexLock lock(state_->mutex);
  if (state_->own_reason.empty()) state_->own_reason = reason;
  state_->changed.notify_all();
  // Rank 0 takes the store with it.
  state_->changed.wait_for(state_->mutex, kFarewell, [&]() PENSTOCK_REQUIRES(state_->mutex) {
    return state_->has_stopped || state_->is_told || (state_->rank != 0 && !state_->reason.empty());
  });
}

}  // namespace penstock::detail
