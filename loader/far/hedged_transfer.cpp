// hedged_transfer(): two transfers, one frontier.
#include "loader/far/hedged_transfer.h"

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

#include "core/clock.h"
#include "core/mutex.h"
#include "core/text.h"
#include "loader/far/link_stats.h"

namespace penstock::detail {
namespace {

constexpr auto kQuestionStep = std::chrono::milliseconds(5);  // whether somebody waits for a range that is late

class Race {
 public:
  Race(Origin& origin, const TransferWish& wish, const TransferCallbacks& callbacks, RangeTimes& times,
       const std::function<bool()>& is_waited_for)
      : origin_(origin),
        wish_(wish),
        callbacks_(callbacks),
        times_(times),
        is_waited_for_(is_waited_for),
        etag_(wish.etag),
        reached_(wish.begin) {}

  void run() {
    std::thread second;
    if (const auto late_ns = times_.late_after_ns(*wish_.end - wish_.begin)) {
      try {
        second = std::thread([this, late = std::chrono::nanoseconds(*late_ns)] { ask_again_after(late); });
      } catch (const std::system_error&) {  // without a thread the range is as late as it is
      }
    }
    std::exception_ptr failure;
    try {
      transfer(origin_, wish_, callbacks(/*is_first=*/true));
    } catch (...) {
      failure = std::current_exception();
    }
    finish();
    if (second.joinable()) second.join();
    const MutexLock lock(mutex_);
    times_.settle(reserved_bytes_, reserved_bytes_ > 0 ? twice_bytes_ : 0);
    if (reached_ < *wish_.end && failure) std::rethrow_exception(failure);
    times_.add(*wish_.end - wish_.begin, now_ns() - begin_ns_);
  }

 private:
  TransferCallbacks callbacks(bool is_first) {
    return {.sink = [this](uint64_t offset, std::span<const uint8_t> bytes,
                           const ObjectFacts& facts) { take(offset, bytes, facts); },
            .on_wait =
                [this, is_first] {
                  if (is_over_) return false;
                  if (!is_first) return true;
                  const MutexLock lock(mutex_);
                  return callbacks_.on_wait();
                },
            .is_over = &is_over_};
  }

  void take(uint64_t offset, std::span<const uint8_t> bytes, const ObjectFacts& facts) {
    const MutexLock lock(mutex_);
    if (!etag_.empty() && facts.etag != etag_)
      throw ObjectChanged(wish_.address, concat("its ETag was ", in_quotes(etag_), " and is ", in_quotes(facts.etag)));
    etag_ = facts.etag;
    // Neither begins after the byte that was reached, and both ascend.
    const uint64_t end = offset + bytes.size(), known = std::min(end, reached_) - offset;
    twice_bytes_ += known;
    if (end <= reached_) return;
    callbacks_.sink(reached_, bytes.subspan(known), facts);
    reached_ = end;
    if (reached_ == *wish_.end) end_race();
  }

  void ask_again_after(std::chrono::nanoseconds late) {
    TransferWish rest = wish_;
    {
      const MutexLock lock(mutex_);
      changed_.wait_for(mutex_, late, [this] { return is_over_.load(); });
      while (!is_over_ && !may_ask_again()) changed_.wait_for(mutex_, kQuestionStep);
      if (is_over_) return;
      rest.begin = reached_;
      rest.etag = etag_;
    }
    count_retry("slow");
    try {
      transfer(origin_, rest, callbacks(/*is_first=*/false));
    } catch (...) {  // the first one goes on
    }
  }

  bool may_ask_again() PENSTOCK_REQUIRES(mutex_) {
    const uint64_t rest_bytes = *wish_.end - reached_;
    if (!is_waited_for_() || !times_.reserve(rest_bytes)) return false;
    reserved_bytes_ = rest_bytes;
    return true;
  }

  void finish() {
    const MutexLock lock(mutex_);
    end_race();
  }
  void end_race() PENSTOCK_REQUIRES(mutex_) {
    is_over_ = true;
    changed_.notify_all();
  }

  Origin& origin_;
  const TransferWish& wish_;
  const TransferCallbacks& callbacks_;
  RangeTimes& times_;
  const std::function<bool()>& is_waited_for_;
  const int64_t begin_ns_ = now_ns();
  std::atomic<bool> is_over_{false};
  Mutex mutex_;
  CondVar changed_;
  std::string etag_ PENSTOCK_GUARDED_BY(mutex_);
  uint64_t reached_ PENSTOCK_GUARDED_BY(mutex_);
  uint64_t reserved_bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  uint64_t twice_bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;
};

}  // namespace

void hedged_transfer(Origin& origin, const TransferWish& wish, const TransferCallbacks& callbacks, RangeTimes& times,
                     const std::function<bool()>& is_waited_for) {
  Race(origin, wish, callbacks, times, is_waited_for).run();
}

}  // namespace penstock::detail
