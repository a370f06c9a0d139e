// Downloads: that what came is on the disk and counted, however the transfer ends.
#include "loader/cache/download.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "loader/cache/progress.h"
#include "loader/far/transfer.h"
#include "loader/files/checksum.h"
#include "tests/support/testing.h"

namespace penstock::detail {
namespace {

/// Gives an object from the byte that is asked for, in records of 16 KiB as TLS does; an answer ends with status 404
/// where `ends` says, or when all has come.
class RecordOrigin final : public Origin {
 public:
  RecordOrigin(std::vector<uint8_t> object, std::deque<uint64_t> ends)
      : object_(std::move(object)), ends_(std::move(ends)) {}

  HttpRequest request(const std::string& address, ObjectWish wish) override {
    begins_.push_back(std::stoull(wish.headers.at("range").substr(6)));
    return {.url = address, .headers = std::move(wish.headers)};
  }
  HttpResponse exchange(const HttpRequest&, const HttpSink& sink) override {
    const uint64_t size = object_.size(), begin = begins_.back();
    const uint64_t end = ends_.empty() ? size : ends_.front();
    if (!ends_.empty()) ends_.pop_front();
    HttpResponse response;
    response.attempt.status = 206;
    response.headers["content-range"] = concat("bytes ", begin, "-", size - 1, "/", size);
    response.headers["etag"] = "\"one\"";
    constexpr uint64_t kRecordBytes = 16 << 10;
    for (uint64_t at = begin; at < end; at += kRecordBytes)
      sink(response, std::span(object_).subspan(at, std::min(kRecordBytes, end - at)));
    if (end < size) response.attempt.status = 404;
    return response;
  }
  const std::vector<uint64_t>& begins() const { return begins_; }

 private:
  std::vector<uint8_t> object_;
  std::deque<uint64_t> ends_;
  std::vector<uint64_t> begins_;
};

class DownloadTest : public testing::Test {
 protected:
  DownloadTest() : folder_("download"), object_(1'000'003) {
    for (size_t i = 0; i < object_.size(); ++i) object_[i] = static_cast<uint8_t>(i * 131 >> 3);
    place_.path = folder_.path() / "place";
    place_.file = OpenFile(open(place_.path.c_str(), O_RDWR | O_CREAT, 0666));
    facts_ = {object_.size(), xxh3_hex(object_)};
  }

  void download_from(RecordOrigin& origin) {
    const std::atomic<bool> is_ending = false;
    download(origin, "http://host/shard", facts_, place_, {is_ending, [](uint64_t) {}, [] { return false; }});
  }
  std::vector<uint8_t> written(size_t count) const {
    std::vector<uint8_t> bytes(count);
    bytes.resize(static_cast<size_t>(pread(place_.file.descriptor(), bytes.data(), count, 0)));
    return bytes;
  }

  penstock::TemporaryFolder folder_;
  std::vector<uint8_t> object_;
  CacheFolder::Place place_;
  FileFacts facts_;
};

TEST_F(DownloadTest, WritesTheWholeObject) {
  RecordOrigin origin(object_, {});
  download_from(origin);
  EXPECT_EQ(written(object_.size()), object_);
}

TEST_F(DownloadTest, KeepsWhatCameBeforeAFailureAndGoesOnAfterIt) {
  RecordOrigin origin(object_, {300'001, 300'002, 900'000});
  for (const uint64_t came : {300'001, 300'002, 900'000}) {
    EXPECT_THROW(download_from(origin), MissingObject);
    const auto progress = read_progress(place_.file.descriptor(), object_.size());
    ASSERT_TRUE(progress);
    EXPECT_EQ(progress->done, came);
    EXPECT_EQ(written(came), std::vector(object_.begin(), object_.begin() + static_cast<ptrdiff_t>(came)));
  }
  download_from(origin);
  EXPECT_EQ(written(object_.size()), object_);
  EXPECT_EQ(origin.begins(), (std::vector<uint64_t>{0, 300'001, 300'002, 900'000}));
}

TEST_F(DownloadTest, ForgetsWhatWasGatheredOfBytesThatAreWrong) {
  auto wrong = object_;
  wrong[5] ^= 1;
  RecordOrigin origin(wrong, {});
  const std::string message = message_of(ErrorKind::kCorrupt, [&] { download_from(origin); });
  EXPECT_NE(message.find(concat("the manifest says ", facts_.xxh3, ", twice")), std::string::npos) << message;
  EXPECT_EQ(origin.begins(), (std::vector<uint64_t>{0, 0}));
}

}  // namespace
}  // namespace penstock::detail
