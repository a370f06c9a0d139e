// Uploads that no service takes: how long they try.
#include "loader/far/upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/clock.h"
#include "loader/files/interrupt.h"
#include "tests/support/testing.h"

namespace penstock::detail {
namespace {

/// Its objects are on a host where nobody listens.
class NoOrigin final : public Origin {
 public:
  HttpRequest request(const std::string&, ObjectWish wish) override {
    ++request_count;
    return {.method = wish.method, .url = "http://127.0.0.1:1/object", .body = std::move(wish.body)};
  }
  int request_count = 0;
};

class UploadTest : public testing::Test {
 protected:
  UploadTest() { std::ofstream(file_) << "bytes"; }
  std::string failure() {
    return message_of(ErrorKind::kIo, [&] { upload(origin_, "s3://b/object", file_, {5, "sum"}, folder_.path()); });
  }
  penstock::TemporaryFolder folder_{"upload"};
  std::filesystem::path file_ = folder_.path() / "file";
  NoOrigin origin_;
};

TEST_F(UploadTest, GivesUpAHostThatHasNeverAnswered) {
  EXPECT_THAT(failure(), testing::ContainsRegex("s3://b/object: PUT: .*, 3 times in [0-9]+ s; expected a host that"));
  EXPECT_EQ(origin_.request_count, 3);
}

TEST_F(UploadTest, IsGivenUpWhenNobodyWaitsForItAnyMore) {
  const InterruptScope::Check is_over = [asked = 0]() mutable { return ++asked > 3; };  // in the wait after an attempt
  const InterruptScope scope(is_over);
  EXPECT_EQ(failure(), "s3://b/object: PUT: was given up; expected somebody who still waits for it");
  EXPECT_LE(origin_.request_count, 2);
}

}  // namespace
}  // namespace penstock::detail
