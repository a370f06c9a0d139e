// An emulated link: a delay per request, and one token bucket.
#include "loader/far/emulated_link.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/far/link_stats.h"
#include "loader/far/sim_link.h"

namespace penstock::detail {
namespace {

constexpr uint64_t kFirstPiece = 4096, kPiece = 1 << 18;
constexpr int64_t kBucket_ns = 5'000'000;
constexpr int64_t kWaitStep_ns = 100'000'000, kFlagStep_ns = 5'000'000;
constexpr const char* kUrlBegin = "sim://link/";  // what follows is the path

class EmulatedOrigin final : public Origin {
 public:
  HttpRequest request(const std::string& address, ObjectWish wish) override {
    return {.url = kUrlBegin + address.substr(std::string(kSimScheme).size()), .headers = std::move(wish.headers)};
  }

  HttpResponse exchange(const HttpRequest& request, const HttpSink& sink) override {
    const auto speed = sim_link();
    if (!speed)
      throw config_error(concat(kSimLinkVariable, ": is not set; expected the speed of the link, as in 20ms,100MB/s"));
    count_emulated();
    HttpResponse response;
    if (!wait_until(now_ns() + static_cast<int64_t>(speed->delay_ms * 1e6), request)) return lost();
    const std::string path = request.url.substr(std::string(kUrlBegin).size());
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) {
      response.attempt.status = 404;
      return response;
    }
    const auto size = static_cast<uint64_t>(file.tellg());
    const auto [begin, end] = range_of(request, size);
    response.attempt.status = 206;
    response.headers["content-range"] = concat("bytes ", begin, "-", end - 1, "/", size);
    if (size == 0) response = whole_empty();
    std::vector<uint8_t> piece(kPiece);
    file.seekg(static_cast<std::streamoff>(begin));
    for (uint64_t at = begin; at < end;) {
      const uint64_t count = std::min(at == begin ? kFirstPiece : kPiece, end - at);
      if (!wait_until(take_tokens(count, speed->bytes_per_second), request)) return lost();
      if (!file.read(reinterpret_cast<char*>(piece.data()), static_cast<std::streamsize>(count))) return lost();
      if (!sink(response, {piece.data(), count})) break;
      at += count;
    }
    return response;
  }

 private:
  static HttpResponse lost() {
    HttpResponse response;
    response.attempt.end = Attempt::End::kLost;
    return response;
  }
  static HttpResponse whole_empty() {
    HttpResponse response;
    response.attempt.status = 200;
    response.headers["content-length"] = "0";
    return response;
  }

  /// `bytes=10-19` or `bytes=10-`, as transfer() writes it.
  static std::pair<uint64_t, uint64_t> range_of(const HttpRequest& request, uint64_t size) {
    const auto found = request.headers.find("range");
    if (found == request.headers.end()) return {0, size};
    const std::string text = found->second.substr(std::string("bytes=").size());
    const size_t minus = text.find('-');
    const uint64_t begin = std::min<uint64_t>(size, std::stoull(text.substr(0, minus)));
    const std::string last = text.substr(minus + 1);
    return {begin, last.empty() ? size : std::max(begin, std::min<uint64_t>(size, std::stoull(last) + 1))};
  }

  /// The time at which so many bytes have come, after all that were asked for before.
  int64_t take_tokens(uint64_t count, double bytes_per_second) {
    const std::lock_guard lock(mutex_);
    free_ns_ = std::max(free_ns_, now_ns() - kBucket_ns) +
               static_cast<int64_t>(std::llround(static_cast<double>(count) * 1e9 / bytes_per_second));
    return free_ns_;
  }

  static bool wait_until(int64_t end_ns, const HttpRequest& request) {
    for (int64_t left_ns = end_ns - now_ns(); left_ns > 0; left_ns = end_ns - now_ns()) {
      const int64_t step_ns = request.is_over ? kFlagStep_ns : kWaitStep_ns;
      std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(left_ns, step_ns)));
      if (request.is_over && *request.is_over) return false;
      if (request.on_wait && !request.on_wait()) return false;
    }
    return true;
  }

  std::mutex mutex_;
  int64_t free_ns_ = 0;
};

}  // namespace

std::unique_ptr<Origin> make_emulated_origin() { return std::make_unique<EmulatedOrigin>(); }

}  // namespace penstock::detail
