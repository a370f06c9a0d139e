// WaitLine: `waiting for shard-00003.safetensors from s3://bucket/train: 12.0 MB of 85.0 MB, 4.0 MB/s`.
#include "loader/cache/wait_line.h"

#include <algorithm>
#include <utility>

#include "core/number_text.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

constexpr int64_t kMoment_ns = 1'000'000'000, kRewrite_ns = 200'000'000, kLog_ns = 30'000'000'000;
constexpr const char* kClearLine = "\r\033[K";

}  // namespace

void WaitLine::begin(const std::string& sum, const std::string& address, uint64_t byte_count) {
  const MutexLock lock(mutex_);
  Shard& shard = shards_[sum];
  shard.address = address;
  shard.byte_count = byte_count;
  ++shard.waiting_count;
}

void WaitLine::arrived(const std::string& sum, uint64_t done) {
  const MutexLock lock(mutex_);
  if (const auto found = shards_.find(sum); found != shards_.end()) found->second.done = done;
}

void WaitLine::end(const std::string& sum) {
  const MutexLock lock(mutex_);
  if (const auto found = shards_.find(sum); found != shards_.end() && --found->second.waiting_count == 0)
    shards_.erase(found);
}

bool WaitLine::is_waited_for(const std::string& sum) {
  const MutexLock lock(mutex_);
  return shards_.contains(sum);
}

std::string WaitLine::tick(int64_t now_ns, uint64_t fetched_bytes, bool is_emulated) {
  const MutexLock lock(mutex_);
  if (shards_.empty()) {
    is_waiting_ = false;
    return std::exchange(is_shown_, false) ? kClearLine : "";
  }
  if (!std::exchange(is_waiting_, true)) {
    begin_ns_ = now_ns;
    begin_bytes_ = fetched_bytes;
    due_ns_ = std::max(due_ns_, now_ns + (is_terminal_ ? kMoment_ns : kLog_ns));
  }
  if (now_ns < due_ns_) return "";
  due_ns_ = now_ns + (is_terminal_ ? kRewrite_ns : kLog_ns);
  const std::string line =
      text(static_cast<double>(now_ns - begin_ns_) * 1e-9, fetched_bytes - begin_bytes_, is_emulated);
  is_shown_ = is_terminal_;
  return is_terminal_ ? kClearLine + line : line + "\n";
}

std::string WaitLine::last_tick() {
  const MutexLock lock(mutex_);
  return std::exchange(is_shown_, false) ? kClearLine : "";
}

std::string WaitLine::text(double seconds, uint64_t came, bool is_emulated) const {
  uint64_t done = 0, byte_count = 0;
  for (const auto& [sum, shard] : shards_) {
    done += shard.done;
    byte_count += shard.byte_count;
  }
  const std::string& address = shards_.begin()->second.address;
  const size_t slash = address.rfind('/');
  std::string line = concat("waiting for ", address.substr(slash + 1));
  if (slash != std::string::npos) line += " from " + address.substr(0, slash);
  if (shards_.size() > 1) line += concat(" and ", count_text(shards_.size() - 1, "more shard"));
  line += concat(": ", byte_text(done), " of ", byte_text(byte_count), ", ",
                 byte_text(static_cast<uint64_t>(static_cast<double>(came) / seconds)), "/s");
  return is_emulated ? line + " [emulated]" : line;
}

}  // namespace penstock::detail
