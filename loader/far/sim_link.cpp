// SimLink: the text of a link's speed, and an origin with a delay per request and a rate of all of them.
#include "loader/far/sim_link.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "core/number.h"
#include "core/text.h"
#include "loader/far/link_stats.h"
#include "loader/far/origin.h"
#include "loader/far/shared_link.h"
#include "loader/files/files.h"

namespace penstock {
LinkSpeed parse_link_speed(const std::string& where, const std::string& text) {
  constexpr double kMostDelay_ms = 10'000, kMostNumber = 1e12;
  std::optional<double> delay_ms, bytes_per_second;
  std::string_view rest = text;
  bool is_good = true;
  while (is_good) {
    const auto number = take_number<double>(rest, std::chars_format::fixed);
    const size_t length = std::min(rest.find(','), rest.size());
    const std::string_view unit = rest.substr(0, length);
    auto& value = unit == "ms" ? delay_ms : bytes_per_second;
    is_good = number && *number >= 0 && *number <= kMostNumber && !value;
    if (is_good) value = unit == "ms" ? *number : *number * bytes_of_rate(unit);
    if (length == rest.size()) break;
    rest.remove_prefix(length + 1);
  }
  if (is_good && bytes_per_second.value_or(0) >= 1e3 && delay_ms.value_or(0) <= kMostDelay_ms)
    return {delay_ms.value_or(0), *bytes_per_second};
  throw config_error(concat(where, " is ", in_quotes(text),
                            "; expected a delay and a rate as in 20ms,100MB/s (up to 10000ms, 1kB/s or more), or a ",
                            "rate as in 1GB/s"));
}

std::optional<LinkSpeed> sim_link() {
  const char* const text = std::getenv(kSimLinkVariable);
  if (text == nullptr || *text == '\0') return {};
  return parse_link_speed(concat(kSimLinkVariable, ":"), text);
}

std::string behind_sim_link(const std::string& where, const std::string& speed, const std::string& folder) {
  parse_link_speed(where, speed);
  if (!is_local(folder) && !folder.starts_with(kSimScheme))
    throw config_error(concat(where, " is ", in_quotes(speed), " with ", folder, "; expected a local data set"));
  // Threads of an earlier loader read the environment, so that it is not written without need.
  const char* const before = std::getenv(kSimLinkVariable);
  if (before == nullptr || speed != before) setenv(kSimLinkVariable, speed.c_str(), 1);
  return folder.starts_with(kSimScheme) ? folder : kSimScheme + folder;
}

namespace detail {
namespace {

constexpr uint64_t kFirstPiece = 4096, kPiece = 1 << 18;
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
    const int64_t ready_ns = now_ns() + static_cast<int64_t>(speed->delay_ms * 1e6);
    if (!wait_until(ready_ns, request)) return lost();
    const std::string path = request.url.substr(std::string(kUrlBegin).size());
    std::error_code ignored;  // what cannot be looked at is not there
    std::ifstream file;
    if (std::filesystem::is_regular_file(path, ignored)) file.open(path, std::ios::binary | std::ios::ate);
    if (!file.is_open()) {
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
      if (!wait_until(shared_link().reserve(count, speed->bytes_per_second, ready_ns), request)) return lost();
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

  static bool wait_until(int64_t end_ns, const HttpRequest& request) {
    for (int64_t left_ns = end_ns - now_ns(); left_ns > 0; left_ns = end_ns - now_ns()) {
      const int64_t step_ns = request.is_over ? kFlagStep_ns : kWaitStep_ns;
      std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(left_ns, step_ns)));
      if (request.is_over && *request.is_over) return false;
      if (request.on_wait && !request.on_wait()) return false;
    }
    return true;
  }
};

}  // namespace

std::unique_ptr<Origin> make_emulated_origin() { return std::make_unique<EmulatedOrigin>(); }

}  // namespace detail
}  // namespace penstock
