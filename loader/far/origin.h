// Origin: the service that a scheme stands for: how its objects are named and how requests to it are signed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "loader/far/http.h"
#include "loader/far/signature.h"

namespace penstock::detail {

/// What is asked of an object.
struct ObjectWish {
  std::string method = "GET";
  std::vector<std::pair<std::string, std::string>> query{};  // not encoded
  std::map<std::string, std::string> headers{};              // lower-case names
  std::string body{};
};

/// Thread-safety: all members may be called on any thread.
class Origin {
 public:
  virtual ~Origin() = default;
  /// The request for the object at `address` (`s3://bucket/folder/file`), signed where the service wants that. Throws
  /// config_error for an address that names no object, and where credentials are wanted and there are none.
  virtual HttpRequest request(const std::string& address, ObjectWish wish) = 0;
  HttpRequest request(const std::string& address, std::map<std::string, std::string> headers) {
    return request(address, ObjectWish{.headers = std::move(headers)});
  }
  /// Carries a request out, as penstock::detail::exchange() does.
  virtual HttpResponse exchange(const HttpRequest& request, const HttpSink& sink) {
    return detail::exchange(request, sink);
  }
  /// Called when a request was refused. Returns whether another attempt makes sense: because credentials are other
  /// ones now, or because the clock of the service is known from `date`, the Date header of its answer.
  virtual bool renew() { return false; }
  virtual bool set_clock(const std::string& /*date*/) { return false; }
  /// For messages about refusals: where the credentials come from; "" where none are used.
  virtual std::string credentials_text() { return ""; }
  virtual std::string region_text() { return ""; }
};

/// http:// and https://: what anybody may read.
std::unique_ptr<Origin> make_plain_origin();

/// s3://BUCKET/KEY. AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or S3_ENDPOINT_URL name another service than Amazon's;
/// AWS_REGION or AWS_DEFAULT_REGION the region (default: that of the profile, then us-east-1); AWS_NO_SIGN_REQUEST=true
/// asks without a key; AWS_REQUEST_PAYER=requester pays.
std::unique_ptr<Origin> make_s3_origin();

/// gs://BUCKET/KEY, by the XML interface of Google Cloud Storage; signed with an HMAC key if there is one
/// (find_google_credentials()), otherwise anonymous. GS_ENDPOINT_URL names another service.
std::unique_ptr<Origin> make_google_origin();

/// The address of a bucket as a URL without a path, and the path that stands before keys. The bucket is in the path
/// where it cannot be in the name: with an endpoint that is an address or has a port, or a bucket with a dot.
struct BucketAddress {
  std::string host;  // `https://bucket.s3.eu-west-1.amazonaws.com`
  std::string path;  // `` or `/bucket`
};
BucketAddress bucket_address(const std::string& endpoint, const std::string& region, const std::string& bucket);

}  // namespace penstock::detail
