// What services answer: header lines, ranges, and the XML of S3 and STS.
#include "loader/far/answer.h"

#include <gtest/gtest.h>

namespace penstock::detail {
namespace {

TEST(AnswerTest, HeadersAreThoseOfTheLastAnswer) {
  std::map<std::string, std::string> headers;
  for (const char* line : {"HTTP/1.1 302 Found\r\n", "Location: /x\r\n", "\r\n", "HTTP/1.1 200 OK\r\n",
                           "Content-Range:  bytes 0-1/2\r\n", "no colon\r\n", "ETAG: \"a:b\"\r\n"})
    add_header_line(headers, line);
  const std::map<std::string, std::string> expected{{"content-range", "bytes 0-1/2"}, {"etag", "\"a:b\""}};
  EXPECT_EQ(headers, expected);
  for (int i = 0; i < 200; ++i) add_header_line(headers, "x" + std::to_string(i) + ": 1");
  EXPECT_EQ(headers.size(), 100U);
}

TEST(AnswerTest, ARangeIsOneOfKnownLength) {
  const auto range = parse_content_range("bytes 100-199/1000");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->begin, 100U);
  EXPECT_EQ(range->total, 1000U);
  const auto of_unknown_length = parse_content_range("bytes 1-2/*");
  EXPECT_TRUE(of_unknown_length && of_unknown_length->begin == 1 && !of_unknown_length->total);
  for (const char* text : {"", "bytes */1000", "bytes 1-2/**", "bytes -1-2/3", "items 1-2/3", "bytes 1/2-3",
                           "bytes 99999999999999999999-1/2", "bytes 1-2/3x"})
    EXPECT_FALSE(parse_content_range(text)) << text;
}

TEST(AnswerTest, ValuesOfXmlHaveNoEntities) {
  EXPECT_EQ(xml_value("<a><ETag>&quot;x&amp;lt;&quot;</ETag><ETag>y</ETag></a>", "ETag"), "\"x&lt;\"");
  EXPECT_EQ(xml_value("</ETag><ETag>after a closing one</ETag>", "ETag"), "after a closing one");
  for (const char* text : {"", "<ETag>", "<ETag>x", "</ETag><ETag>"}) EXPECT_EQ(xml_value(text, "ETag"), "") << text;
}

TEST(AnswerTest, ARegionIsThatOfTheHeaderOrOfTheBody) {
  EXPECT_EQ(region_text("eu-west-1", "<Region>eu-west-3</Region>"), "eu-west-1");
  EXPECT_EQ(region_text("", "<Error><Region>eu-west-3</Region></Error>"), "eu-west-3");
  EXPECT_EQ(region_text("", "<Error><Region>eu west</Region></Error>"), "");
}

TEST(AnswerTest, TheSumsOfGooglesStorageAreOneHeader) {
  std::map<std::string, std::string> headers;
  for (const char* line : {"x-goog-hash: crc32c=AAAAAA==\r\n", "X-Goog-Hash: md5=BB\r\n", "etag: 1", "etag: 2"})
    add_header_line(headers, line);
  EXPECT_EQ(headers["x-goog-hash"], "crc32c=AAAAAA==,md5=BB");
  EXPECT_EQ(headers["etag"], "2");
}

TEST(AnswerTest, AnErrorsCodeIsAWord) {
  EXPECT_EQ(error_code_of("<Error><Code>SlowDown</Code></Error>"), "SlowDown");
  EXPECT_EQ(error_code_of("<Error><Code>Slow\nDown</Code></Error>"), "");
  EXPECT_EQ(error_code_of("<Error><Code>" + std::string(65, 'x') + "</Code></Error>"), "");
}

}  // namespace
}  // namespace penstock::detail
