// Addresses: what is taken, what is refused, and where buckets are.
#include "loader/far/origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loader/far/answer.h"
#include "loader/far/credential_sources.h"
#include "loader/far/url.h"
#include "tests/support/testing.h"

namespace penstock::detail {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(UrlTest, HasSchemeHostAndPath) {
  const Url url = Url::parse("HTTPS://host:8443/a/b%20c");
  EXPECT_EQ(url.scheme, "https");
  EXPECT_EQ(url.host, "host:8443");
  EXPECT_EQ(url.path, "/a/b%20c");
  EXPECT_EQ(Url::parse("s3://bucket").path, "/");
  EXPECT_EQ(Url::parse("s3://bucket/user@host/k").path, "/user@host/k");
  EXPECT_EQ(Url::parse("https://host:8080/x@1/my set").path, "/x@1/my set");
}

TEST(UrlTest, RefusesWhatNamesNoFolder) {
  for (const auto& [text, fact] : {std::pair{"https:///a", "has no host"},
                                   {"https:a", "has no host"},
                                   {"http://:80/a", "has no host"},
                                   {"http://[::1/a", "has no host"},
                                   {"http://h:99999/a", "has \":99999\" after its host"},
                                   {"http://h:0/a", "has \":0\" after its host"},
                                   {"http://h:/a", "has \":\" after its host"},
                                   {"http://h:8x/a", "expected SCHEME://HOST/FOLDER"},
                                   {"http://[::1]80/a", "has \"80\" after its host"},
                                   {"https://h/a?b", "has a ? or #"},
                                   {"https://h/a#b", "has a ? or #"},
                                   {"https://h/a/../b", "has .. in its path"},
                                   {"https://h x/a", "a space in its host"}})
    EXPECT_THAT(message_of(ErrorKind::kConfig, [text = text] { Url::parse(text); }), HasSubstr(fact)) << text;
  EXPECT_EQ(Url::parse("http://[::1]:65535/a").host, "[::1]:65535");
}

TEST(UrlTest, APasswordIsRefusedAndNotShown) {
  for (const char* text : {"https://me:hidden@host/a", "http://me:hid/den@host/a", "s3://KEY:hidden@bucket/a",
                           "s3://KEY:hid/den@bucket/a"})
    EXPECT_THAT(message_of(ErrorKind::kConfig, [text] { Url::parse(text); }), Not(HasSubstr("hid"))) << text;
}

TEST(UrlTest, AQueryIsRefusedAndNotShown) {
  for (const char* text : {"https://host/a?X-Amz-Signature=hidden", "https://host/a?x=hid den", "https://host/a#hidden",
                           "https://host/../a?hidden"}) {
    const std::string message = message_of(ErrorKind::kConfig, [text] { Url::parse(text); });
    EXPECT_THAT(message, HasSubstr("https://host/")) << text;
    EXPECT_THAT(message, Not(HasSubstr("hid"))) << text;
  }
}

TEST(UrlTest, EncodesAsAmazonSigns) {
  EXPECT_EQ(percent_encoded("a/b c+d~e-f_g.h", true), "a/b%20c%2Bd~e-f_g.h");
  EXPECT_EQ(percent_encoded("a/ü", false), "a%2F%C3%BC");
}

TEST(BucketTest, IsInTheNameUnlessItCannotBe) {
  const auto text = [](const std::string& endpoint, const std::string& bucket) {
    const auto found = bucket_address(endpoint, "eu-west-1", bucket);
    return found.host + found.path;
  };
  EXPECT_EQ(text("", "set"), "https://set.s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(text("", "my.set"), "https://s3.eu-west-1.amazonaws.com/my.set");
  EXPECT_EQ(text("https://objects.example.org/", "set"), "https://set.objects.example.org");
  EXPECT_EQ(text("objects.example.org", "set"), "https://set.objects.example.org");
  EXPECT_EQ(text("https://objects.example.org", "my.set"), "https://objects.example.org/my.set");
  EXPECT_EQ(text("http://10.0.0.7", "set"), "http://10.0.0.7/set");
  EXPECT_EQ(text("http://minio:9000", "set"), "http://minio:9000/set");
  EXPECT_EQ(text("http://localhost", "set"), "http://localhost/set");
  EXPECT_EQ(text("https://host/s3", "set"), "https://host/s3/set");
  EXPECT_EQ(bucket_address("", "cn-north-1", "set").host, "https://set.s3.cn-north-1.amazonaws.com.cn");
}

TEST(IniTest, FindsKeysOfSections) {
  const std::string text =
      "# comment\n[default]\na = 1\n\n[profile x]\r\n a=2 \n#a = 3\nb = c = d\n[ spaced ]\na=4\n[open\na=5\n";
  EXPECT_EQ(ini_value(text, "default", "a"), "1");
  EXPECT_EQ(ini_value(text, "profile x", "a"), "2");
  EXPECT_EQ(ini_value(text, "profile x", "b"), "c = d");
  EXPECT_EQ(ini_value(text, "spaced", "a"), "4");
  EXPECT_EQ(ini_value(text, "default", "b"), "");
  EXPECT_EQ(ini_value(text, "none", "a"), "");
}

TEST(IniTest, TimesAreThoseOfIso8601) {
  EXPECT_EQ(parse_iso_time("1970-01-02T00:00:01Z"), 86401);
  EXPECT_EQ(parse_iso_time("2026-11-25T08:00:00.123Z"), 1795593600);
  EXPECT_EQ(parse_iso_time("tomorrow"), 0);
}

}  // namespace
}  // namespace penstock::detail
