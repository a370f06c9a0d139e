// What requests to S3 are signed with, against published vectors.
#include "loader/far/signature.h"

#include <gtest/gtest.h>

namespace penstock::detail {
namespace {

TEST(Sha256Test, GivesTheSumsOfItsStandard) {  // FIPS 180-4, and the examples that NIST published with it
  EXPECT_EQ(hex_of(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex_of(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex_of(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex_of(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, IsTheSameInPiecesAndWithoutInstructions) {
  std::vector<uint8_t> bytes(3'000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * i >> 3);
  for (const size_t byte_count : {0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 3'000}) {
    const auto whole = std::span<const uint8_t>(bytes).first(byte_count);
    const std::string expected = facts_of(whole).sha256;
    for (const size_t piece : {1, 7, 64, 100}) {
      Sha256Sum sum(/*may_use_instructions=*/piece == 7);
      for (size_t at = 0; at < byte_count; at += piece) sum.add(whole.subspan(at, std::min(piece, byte_count - at)));
      EXPECT_EQ(hex_of(sum.finish()), expected) << byte_count << " bytes by " << piece;
    }
  }
}

TEST(Sha256Test, GivesTheCodesOfItsStandard) {  // RFC 4231, test cases 1, 2 and 6
  EXPECT_EQ(hex_of(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex_of(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex_of(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/// The examples of "Signature Calculations for the Authorization Header" (AWS, S3 API reference).
std::string example_signature(const std::string& path, std::vector<std::pair<std::string, std::string>> query,
                              std::map<std::string, std::string> headers) {
  const Credentials keys{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "", 0, ""};
  constexpr int64_t kDay = 1369353600;  // 2013-05-24
  const auto made = signed_headers({.host = "examplebucket.s3.amazonaws.com",
                                    .path = path,
                                    .query = std::move(query),
                                    .headers = std::move(headers)},
                                   keys, "us-east-1", "s3", kDay);
  const std::string& text = made.at("authorization");
  return text.substr(text.rfind('=') + 1);
}

TEST(SignatureTest, IsThatOfTheExamplesOfAmazon) {
  EXPECT_EQ(example_signature("/test.txt", {}, {{"range", "bytes=0-9"}}),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(example_signature("/", {{"lifecycle", ""}}, {}),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(example_signature("/", {{"prefix", "J"}, {"max-keys", "2"}}, {}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(SignatureTest, CoversATokenAndNamesNoSecret) {
  const Credentials keys{"ID", "SECRET", "TOKEN", 0, ""};
  const auto made = signed_headers({.host = "h", .path = "/"}, keys, "r", "s3", 0);
  EXPECT_EQ(made.at("x-amz-security-token"), "TOKEN");
  EXPECT_EQ(made.at("x-amz-date"), "19700101T000000Z");
  EXPECT_NE(made.at("authorization").find("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,"),
            std::string::npos);
  for (const auto& [name, value] : made) EXPECT_EQ(value.find("SECRET"), std::string::npos) << name;
}

}  // namespace
}  // namespace penstock::detail
