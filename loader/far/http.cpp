// One exchange over HTTP, by libcurl: every thread that asks has a connection of its own meanwhile.
#include "loader/far/http.h"

#define CURL_DISABLE_DEPRECATION  // the options with texts came with 7.85, and older ones would ignore them
#include <curl/curl.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "core/limits.h"
#include "core/mutex.h"
#include "core/text.h"
#include "loader/far/answer.h"

namespace penstock::detail {
namespace {

constexpr size_t kMostKept = 64 << 10, kMostOfHeaders = 256 << 10;
constexpr long kMostRedirects = 5;

/// The functions of libcurl. They are looked up at run time, so that a program that reads local files alone neither
/// loads a TLS library nor needs one to be there.
struct CurlLibrary {
  decltype(&::curl_easy_init) make = nullptr;
  decltype(&::curl_easy_setopt) set = nullptr;
  decltype(&::curl_easy_cleanup) free = nullptr;
  decltype(&::curl_easy_getinfo) get = nullptr;
  decltype(&::curl_easy_reset) reset = nullptr;
  decltype(&::curl_easy_strerror) text_of = nullptr;
  decltype(&::curl_multi_init) make_loop = nullptr;
  decltype(&::curl_multi_cleanup) free_loop = nullptr;
  decltype(&::curl_multi_add_handle) enter = nullptr;
  decltype(&::curl_multi_remove_handle) leave = nullptr;
  decltype(&::curl_multi_perform) perform = nullptr;
  decltype(&::curl_multi_wait) wait = nullptr;
  decltype(&::curl_multi_info_read) next_message = nullptr;
  decltype(&::curl_slist_append) append = nullptr;
  decltype(&::curl_slist_free_all) free_list = nullptr;
  bool shares_stores = false;  // these four are of the OpenSSL that this libcurl uses
  void* (*store_of)(const void*) = nullptr;
  void (*give_store)(void*, void*) = nullptr;
  int (*keep_store)(void*) = nullptr;
  void (*free_store)(void*) = nullptr;

  CurlLibrary() {
    // The second one is Debian's with GnuTLS, the third one what a development package links.
    for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so"})
      if (library_ == nullptr) library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr)
      throw config_error(
          "https, s3 and gs: libcurl.so.4 is not on this machine; expected it for addresses (Debian: apt-get install "
          "libcurl4)");
    find(make, "curl_easy_init");
    find(set, "curl_easy_setopt");
    find(free, "curl_easy_cleanup");
    find(get, "curl_easy_getinfo");
    find(reset, "curl_easy_reset");
    find(text_of, "curl_easy_strerror");
    find(make_loop, "curl_multi_init");
    find(free_loop, "curl_multi_cleanup");
    find(enter, "curl_multi_add_handle");
    find(leave, "curl_multi_remove_handle");
    find(perform, "curl_multi_perform");
    find(wait, "curl_multi_wait");
    find(next_message, "curl_multi_info_read");
    find(append, "curl_slist_append");
    find(free_list, "curl_slist_free_all");
    decltype(&::curl_global_init) start = nullptr;
    find(start, "curl_global_init");
    start(CURL_GLOBAL_DEFAULT);
    decltype(&::curl_version_info) version = nullptr;
    find(version, "curl_version_info");
    const char* const tls = version(CURLVERSION_NOW)->ssl_version;  // dlsym() looks at what libcurl needs as well
    shares_stores = tls != nullptr && std::string_view(tls).starts_with("OpenSSL/") &&
                    has(store_of, "SSL_CTX_get_cert_store") && has(give_store, "SSL_CTX_set_cert_store") &&
                    has(keep_store, "X509_STORE_up_ref") && has(free_store, "X509_STORE_free");
  }

 private:
  template <class Function>
  bool has(Function& function, const char* name) {
    return (function = reinterpret_cast<Function>(dlsym(library_, name))) != nullptr;
  }
  template <class Function>
  void find(Function& function, const char* name) {
    if (!has(function, name))
      throw config_error(concat("https, s3 and gs: libcurl has no ", name, "; expected libcurl 7.61 or later"));
  }
  void* library_ = nullptr;
};

const CurlLibrary& curl() {
  static const auto& library = *new CurlLibrary;  // never destroyed: the last threads of a program may still read
  return library;
}

/// What an exchange needs: options, and the loop that has its connections.
struct Handle {
  CURL* easy = nullptr;
  CURLM* loop = nullptr;
  explicit operator bool() const { return easy != nullptr && loop != nullptr; }
};

void free_handle(const Handle& handle) {
  if (handle.easy != nullptr) curl().free(handle.easy);
  if (handle.loop != nullptr) curl().free_loop(handle.loop);
}

/// Handles that are not in use, with their connections. The last one given back is the next one taken.
class HandlePool {
 public:
  Handle take() {
    const MutexLock lock(mutex_);
    if (idle_.empty()) return {curl().make(), curl().make_loop()};
    const Handle handle = idle_.back();
    idle_.pop_back();
    return handle;
  }
  void give_back(const Handle& handle) {
    curl().reset(handle.easy);
    const MutexLock lock(mutex_);
    idle_.push_back(handle);
  }
  /// Closes the connections that nobody uses.
  void clear() {
    const MutexLock lock(mutex_);
    for (const Handle& handle : std::exchange(idle_, {})) free_handle(handle);
  }

 private:
  Mutex mutex_;
  std::vector<Handle> idle_ PENSTOCK_GUARDED_BY(mutex_);
};

HandlePool& handles() {
  static auto& pool = *new HandlePool;
  return pool;
}

/// What the callbacks of one exchange see.
struct Exchange {
  HttpResponse response;
  const HttpRequest* request = nullptr;
  const HttpSink* sink = nullptr;
  CURL* handle = nullptr;
  bool has_ended = false;  // by the sink, or because enough has come
  size_t header_bytes = 0;
  void* store = nullptr;  // of certificates, that this exchange has read
  std::exception_ptr failure;
};

size_t on_header(char* data, size_t, size_t size, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  if ((exchange.header_bytes += size) > kMostOfHeaders) return 0;  // ends the exchange
  add_header_line(exchange.response.headers, {data, size});
  return size;
}

size_t on_body(char* data, size_t, size_t size, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  auto& response = exchange.response;
  long status = 0;
  curl().get(exchange.handle, CURLINFO_RESPONSE_CODE, &status);
  response.attempt.status = static_cast<int>(status);
  if (*exchange.sink == nullptr || (status != 200 && status != 206)) {
    response.body.append(data, std::min(size, kMostKept - response.body.size()));
    exchange.has_ended = response.body.size() == kMostKept;
    return exchange.has_ended ? 0 : size;
  }
  try {
    if ((*exchange.sink)(response, {reinterpret_cast<const uint8_t*>(data), size})) return size;
    exchange.has_ended = true;
  } catch (...) {  // an exception must not pass through libcurl
    exchange.failure = std::current_exception();
  }
  return size + 1;  // ends the exchange
}

/// Whether the exchange shall go on.
bool asks_on(Exchange& exchange) {
  if (!exchange.request->on_wait) return true;
  try {
    exchange.has_ended = !exchange.request->on_wait();
  } catch (...) {  // thrown again once the handle is given back
    exchange.failure = std::current_exception();
  }
  return !exchange.has_ended && !exchange.failure;
}

/// A loop of our own in place of curl_easy_perform(), which asks nobody for up to a second. Asking may take Python's
/// lock, and a flag is looked at more often.
CURLcode perform(const Handle& handle, Exchange& exchange) {
  constexpr int kWaitStep_ms = 100, kFlagStep_ms = 5;
  constexpr int64_t kWaitStep_ns = kWaitStep_ms * 1'000'000;
  const auto* const is_over = exchange.request->is_over;
  if (curl().enter(handle.loop, handle.easy) != CURLM_OK) return CURLE_FAILED_INIT;
  CURLcode code = CURLE_ABORTED_BY_CALLBACK;
  int64_t asked_ns = now_ns();
  for (int running = 1; running > 0;) {
    if (curl().perform(handle.loop, &running) != CURLM_OK) break;
    int ready_count = 0;
    if (running > 0 &&
        curl().wait(handle.loop, nullptr, 0, is_over ? kFlagStep_ms : kWaitStep_ms, &ready_count) != CURLM_OK)
      break;
    // Without a socket, as while a name is looked up, it does not wait.
    if (running > 0 && ready_count == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (running > 0 && is_over != nullptr && *is_over) {
      exchange.has_ended = true;
      break;
    }
    if (now_ns() - asked_ns < kWaitStep_ns) continue;
    if (running > 0 && !asks_on(exchange)) break;
    asked_ns = now_ns();
  }
  for (int left = 0; const CURLMsg* message = curl().next_message(handle.loop, &left);)
    if (message->msg == CURLMSG_DONE) code = message->data.result;
  curl().leave(handle.loop, handle.easy);
  return code;
}

std::string certificates() {
  for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"})
    if (const char* file = std::getenv(name); file != nullptr && *file != '\0') return file;
  return "";
}

/// The certificates that the first connection has read, for all others of the process: Debian's 144 take 27 ms of a
/// core, and a loader that begins makes up to 28 connections. OpenSSL counts who has a store, and locks it.
class CertificateStore {
 public:
  /// Where the store is there, libcurl reads no file. Otherwise `read` becomes the store that it makes.
  void set_options(CURL* handle, void** read) {
    const std::string file = certificates();
    const auto set = curl().set;
    if (!file.empty()) set(handle, CURLOPT_CAINFO, file.c_str());
    if (!curl().shares_stores || has_proxy()) return;
    const MutexLock lock(mutex_);
    if (store_ == nullptr) {
      set(handle, CURLOPT_SSL_CTX_FUNCTION, look);
      set(handle, CURLOPT_SSL_CTX_DATA, read);
    } else if (file_ == file) {
      set(handle, CURLOPT_CAINFO, nullptr);
      set(handle, CURLOPT_CAPATH, nullptr);
      set(handle, CURLOPT_SSL_CTX_FUNCTION, give);
      set(handle, CURLOPT_SSL_CTX_DATA, store_);
    }
  }

  /// To be called after an answer, because some versions of libcurl fill the store while they wait for one.
  void take(void* read, bool is_answered) {
    const MutexLock lock(mutex_);
    if (store_ != nullptr || !is_answered) return curl().free_store(read);
    store_ = read;
    file_ = certificates();
  }

 private:
  /// One of https has certificates of its own, and these functions are not told whose connection it is.
  static bool has_proxy() {
    const std::array names{"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    return std::ranges::any_of(names, [](const char* name) { return std::getenv(name) != nullptr; });
  }
  static CURLcode look(CURL*, void* context, void* read) {
    void*& store = *static_cast<void**>(read);
    if (store != nullptr) return CURLE_OK;  // of a connection before a redirect
    store = curl().store_of(context);
    curl().keep_store(store);
    return CURLE_OK;
  }
  static CURLcode give(CURL*, void* context, void* store) {
    curl().keep_store(store);
    curl().give_store(context, store);
    return CURLE_OK;
  }

  Mutex mutex_;
  std::string file_ PENSTOCK_GUARDED_BY(mutex_);       // that the store is of
  void* store_ PENSTOCK_GUARDED_BY(mutex_) = nullptr;  // never freed
};

CertificateStore& certificate_store() {
  static auto& store = *new CertificateStore;
  return store;
}

curl_slist* set_options(const HttpRequest& request, Exchange& exchange) {
  CURL* const handle = exchange.handle;
  const auto set = curl().set;
  curl_slist* headers = nullptr;
  for (const auto& [name, value] : request.headers) headers = curl().append(headers, concat(name, ": ", value).c_str());
  for (const char* unwanted : {"accept:", "expect:"}) headers = curl().append(headers, unwanted);
  set(handle, CURLOPT_URL, request.url.c_str());
  set(handle, CURLOPT_HTTPHEADER, headers);
  set(handle, CURLOPT_PATH_AS_IS, 1L);  // as it was signed
  set(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (request.method == "HEAD") set(handle, CURLOPT_NOBODY, 1L);
  if (request.method == "PUT" || request.method == "POST") {  // says Content-Length: 0 where the body is empty
    set(handle, CURLOPT_POSTFIELDSIZE, static_cast<long>(request.body.size()));
    set(handle, CURLOPT_POSTFIELDS, request.body.c_str());
  }
  set(handle, CURLOPT_NOSIGNAL, 1L);
  set(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(handle, CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
  const bool is_secure = request.url.starts_with("https:");
  set(handle, CURLOPT_REDIR_PROTOCOLS,
      static_cast<long>(is_secure ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS));
  set(handle, CURLOPT_FOLLOWLOCATION, request.follows_redirects ? 1L : 0L);
  set(handle, CURLOPT_MAXREDIRS, kMostRedirects);
  set(handle, CURLOPT_FRESH_CONNECT, request.on_new_connection ? 1L : 0L);
  set(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_timeout_s * 1000));
  set(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(request.total_timeout_s * 1000));
  set(handle, CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(kLeastBytesPerSecond));
  set(handle, CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(request.stall_timeout_s)));
  set(handle, CURLOPT_BUFFERSIZE, 256L << 10);
  set(handle, CURLOPT_TCP_KEEPALIVE, 1L);
  certificate_store().set_options(handle, &exchange.store);
  set(handle, CURLOPT_HEADERFUNCTION, on_header);
  set(handle, CURLOPT_HEADERDATA, &exchange);
  set(handle, CURLOPT_WRITEFUNCTION, on_body);
  set(handle, CURLOPT_WRITEDATA, &exchange);
  return headers;
}

Attempt::End end_of(CURLcode code) {
  switch (code) {
    case CURLE_OK:
      return Attempt::End::kAnswered;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
      return Attempt::End::kNoHost;
    case CURLE_OPERATION_TIMEDOUT:
      return Attempt::End::kStalled;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return Attempt::End::kDistrusted;
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
      return Attempt::End::kRedirects;
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SSL_CONNECT_ERROR:
      return Attempt::End::kLost;
    default:
      return Attempt::End::kOther;
  }
}

}  // namespace

void start_transport() { curl(); }

HttpResponse exchange(const HttpRequest& request, const HttpSink& sink) {
  for (const auto& [name, value] : request.headers)  // libcurl would send it as two headers
    if (std::ranges::any_of(value, [](unsigned char c) { return (c < ' ' && c != '\t') || c == 0x7f; }))
      throw config_error(concat("header ", name, ": has a line break or another control character; expected one line"));
  Exchange state;
  state.request = &request;
  state.sink = &sink;
  const Handle handle = handles().take();
  state.handle = handle.easy;
  if (!handle) free_handle(handle);
  if (!handle) throw device_error(concat(request.url, ": libcurl gives no handle; expected more memory"));
  std::array<char, CURL_ERROR_SIZE> text{};
  curl_slist* const headers = set_options(request, state);
  curl().set(state.handle, CURLOPT_ERRORBUFFER, text.data());
  const CURLcode code = perform(handle, state);
  auto& [attempt, answer_headers, problem, body] = state.response;
  long status = 0;
  curl().get(state.handle, CURLINFO_RESPONSE_CODE, &status);
  curl().free_list(headers);
  handles().give_back(handle);
  if (state.store != nullptr) certificate_store().take(state.store, status > 0);
  if (state.failure) std::rethrow_exception(state.failure);
  attempt.status = static_cast<int>(status);
  attempt.end = state.has_ended ? Attempt::End::kAnswered : end_of(code);
  if (attempt.end != Attempt::End::kAnswered && are_files_used_up()) {
    attempt.end = Attempt::End::kOutOfFiles;
    handles().clear();
  }
  if (attempt.end != Attempt::End::kAnswered) problem = text[0] != '\0' ? text.data() : curl().text_of(code);
  attempt.code = error_code_of(body);  // also with status 200, which a service may send before it knows
  return state.response;
}

}  // namespace penstock::detail
