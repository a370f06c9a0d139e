// Origin: plain servers, S3 and Google's storage.
#include "loader/far/origin.h"

#include <algorithm>
#include <cctype>
#include <ctime>

#include "core/error.h"
#include "core/mutex.h"
#include "core/text.h"
#include "loader/far/credential_sources.h"
#include "loader/far/retry.h"
#include "loader/far/url.h"

namespace penstock::detail {
namespace {

constexpr int64_t kRenewedBefore_s = 300, kRenewedAgainAfter_s = 60;

class PlainOrigin final : public Origin {
 public:
  HttpRequest request(const std::string& address, ObjectWish wish) override {
    const Url url = Url::parse(address);
    if (url.path.size() < 2)  // a file's name that was added to an address without a host has become the host
      throw config_error(concat(address, ": names a host; expected ", url.scheme, "://HOST/FOLDER"));
    std::string path;  // as it was typed, but for bytes that no request line may have
    for (const char c : url.path)
      path += static_cast<unsigned char>(c) < 0x80 && c != ' ' ? std::string(1, c) : percent_encoded({&c, 1}, true);
    return {.method = std::move(wish.method),
            .url = concat(url.scheme, "://", url.host, path),
            .headers = std::move(wish.headers)};
  }
};

bool is_on(const char* variable) {
  const std::string value = environment(variable);
  return value == "1" || value == "true" || value == "TRUE" || value == "True" || value == "yes";
}

std::string first_of(std::initializer_list<const char*> variables) {
  for (const char* variable : variables)
    if (auto value = environment(variable); !value.empty()) return value;
  return "";
}

/// What signs with keys. The environment is read once, keys are read again when they end.
class SigningOrigin : public Origin {
 public:
  HttpRequest request(const std::string& address, ObjectWish wish) override {
    const Url url = Url::parse(address);
    if (url.path.size() < 2)
      throw config_error(concat(address, ": names a bucket; expected ", url.scheme, "://BUCKET/FOLDER"));
    const BucketAddress bucket = address_of(url.host);
    const std::string path = percent_encoded(bucket.path + url.path, /*keeps_slash=*/true);
    if (environment("AWS_REQUEST_PAYER") == "requester") wish.headers["x-amz-request-payer"] = "requester";
    const std::string query = canonical_query(wish.query);
    HttpRequest request{.method = wish.method,
                        .url = concat(bucket.host, path, query.empty() ? "" : "?", query),
                        .headers = wish.headers,
                        .body = std::move(wish.body),
                        .follows_redirects = false};
    if (const auto keys = credentials()) {
      const SignedParts parts{.method = std::move(wish.method),
                              .host = bucket.host.substr(bucket.host.find("://") + 3),
                              .path = path,
                              .query = std::move(wish.query),
                              .headers = std::move(wish.headers),
                              .body = request.body};
      request.headers = signed_headers(parts, *keys, region_, "s3", std::time(nullptr) + clock_offset_s());
    }
    return request;
  }

  bool renew() override {
    const MutexLock lock(mutex_);
    if (!credentials_) return false;
    auto found = find();
    if (!found) return false;
    credentials_ = std::move(found);
    return true;
  }

  bool set_clock(const std::string& date) override {
    const auto theirs = parse_http_date(date);
    if (!theirs) return false;
    const MutexLock lock(mutex_);
    clock_offset_s_ = *theirs - std::time(nullptr);
    return true;
  }

  std::string credentials_text() override {
    const MutexLock lock(mutex_);
    return credentials_ ? credentials_->source : "";
  }
  std::string region_text() override { return region_; }

 protected:
  SigningOrigin(std::string endpoint, std::string region)
      : endpoint_(std::move(endpoint)), region_(std::move(region)), is_anonymous_(is_on("AWS_NO_SIGN_REQUEST")) {}
  virtual std::optional<Credentials> find() = 0;
  virtual void refuse_anonymous() const {}
  virtual BucketAddress address_of(const std::string& bucket) const {
    return bucket_address(endpoint_, region_, bucket);
  }

  const std::string endpoint_, region_;

 private:
  std::optional<Credentials> credentials() {
    if (is_anonymous_) return {};
    const MutexLock lock(mutex_);
    const bool ends = credentials_ && credentials_->expires_s != 0 &&
                      credentials_->expires_s - kRenewedBefore_s <= std::time(nullptr);
    if (ends || !has_looked_) look_for_keys();
    has_looked_ = true;
    if (!credentials_) refuse_anonymous();
    return credentials_;
  }
  /// Keys that still hold stay while the service that gives new ones fails, which is asked again a minute later.
  void look_for_keys() PENSTOCK_REQUIRES(mutex_) {
    const int64_t now_s = std::time(nullptr);
    const bool do_hold = credentials_ && credentials_->expires_s > now_s;
    if (do_hold && now_s < next_look_s_) return;
    try {
      auto found = find();
      if (found || !do_hold) {
        credentials_ = std::move(found);
        return;
      }
    } catch (const Error&) {
      if (!do_hold) throw;
    }
    next_look_s_ = now_s + kRenewedAgainAfter_s;
  }
  int64_t clock_offset_s() {
    const MutexLock lock(mutex_);
    return clock_offset_s_;
  }

  const bool is_anonymous_;
  Mutex mutex_;
  std::optional<Credentials> credentials_ PENSTOCK_GUARDED_BY(mutex_);
  bool has_looked_ PENSTOCK_GUARDED_BY(mutex_) = false;
  int64_t next_look_s_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  int64_t clock_offset_s_ PENSTOCK_GUARDED_BY(mutex_) = 0;
};

std::string region_of_environment() {
  std::string region = first_of({"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (region.empty()) region = profile_value("region");
  return region.empty() ? "us-east-1" : region;
}

class S3Origin final : public SigningOrigin {
 public:
  S3Origin()
      : SigningOrigin(first_of({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "S3_ENDPOINT_URL"}),
                      region_of_environment()) {}

 private:
  std::optional<Credentials> find() override { return find_credentials(region_); }
  void refuse_anonymous() const override {
    throw config_error(
        "s3: no credentials in the environment, a web identity, ~/.aws, a container's service or an instance's; "
        "expected some (aws configure), or AWS_NO_SIGN_REQUEST=true for what anybody may read");
  }
};

class GoogleOrigin final : public SigningOrigin {
 public:
  GoogleOrigin() : SigningOrigin(environment("GS_ENDPOINT_URL"), "auto") {}

 private:
  std::optional<Credentials> find() override { return find_google_credentials("us-east-1"); }
  BucketAddress address_of(const std::string& bucket) const override {
    const std::string host = endpoint_.empty() ? "https://storage.googleapis.com" : endpoint_;
    return {host, "/" + bucket};
  }
};

}  // namespace

BucketAddress bucket_address(const std::string& endpoint, const std::string& region, const std::string& bucket) {
  const bool has_dot = bucket.find('.') != std::string::npos;
  if (endpoint.empty()) {
    const std::string service = concat("s3.", region, ".amazonaws.com", region.starts_with("cn-") ? ".cn" : "");
    return has_dot ? BucketAddress{"https://" + service, "/" + bucket}
                   : BucketAddress{concat("https://", bucket, ".", service), ""};
  }
  std::string base = endpoint.find("://") == std::string::npos ? "https://" + endpoint : endpoint;
  while (base.ends_with('/')) base.pop_back();
  const size_t begin = base.find("://") + 3;
  const size_t slash = base.find('/', begin);
  const std::string host = base.substr(begin, slash == std::string::npos ? slash : slash - begin);
  const bool is_address =
      host.find(':') != std::string::npos || host == "localhost" ||
      std::all_of(host.begin(), host.end(), [](char c) { return c == '.' || std::isdigit(c) != 0; });
  const std::string folder = slash == std::string::npos ? "" : base.substr(slash);
  if (is_address || has_dot || !folder.empty()) return {base.substr(0, begin) + host, concat(folder, "/", bucket)};
  return {concat(base.substr(0, begin), bucket, ".", host), ""};
}

std::unique_ptr<Origin> make_plain_origin() { return std::make_unique<PlainOrigin>(); }
std::unique_ptr<Origin> make_s3_origin() { return std::make_unique<S3Origin>(); }
std::unique_ptr<Origin> make_google_origin() { return std::make_unique<GoogleOrigin>(); }

}  // namespace penstock::detail
