// Safetensors: what is written comes back, and what the format forbids is refused.
#include "loader/files/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing_data::Bytes;
using testing_data::error_of;
using testing_data::names_in;
using testing_data::TemporaryFolder;
using testing_data::write_bytes;

/// The bytes of a file with this header and `data_size` bytes of data.
Bytes file_of(const std::string& header, size_t data_size) {
  Bytes bytes(8 + header.size() + data_size, 7);
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}

std::string error_of_file(const Bytes& bytes) {
  const TemporaryFolder folder;
  write_bytes(folder / "x", bytes);
  return error_of([&] { Safetensors(folder / "x"); });
}

TEST(SafetensorsTest, WrittenTensorsComeBackAligned) {
  const TemporaryFolder folder;
  const Bytes bytes{1, 2, 3}, doubles(16, 9), halves(4, 5);
  write_safetensors(folder / "x",
                    {{"a", "U8", {3}, bytes},
                     {"b", "F64", {1, 2}, doubles},
                     {"c", "BF16", {2}, halves},
                     {"scalar", "I64", {}, std::span(doubles).first(8)},
                     {"none", "F32", {0, 4}, {}}},
                    {{"step", "7"}});
  const Safetensors file(folder / "x");
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"step", "7"}}));
  ASSERT_EQ(file.tensors().size(), 5u);
  for (const auto& tensor : file.tensors())
    EXPECT_EQ(tensor.byte_offset % dtype_bytes(tensor.dtype), 0u) << tensor.name;
  EXPECT_EQ(file.tensors()[0].byte_offset % 64, 0u);
  const auto& a = file.get("a", "U8", {Safetensors::kAny});
  EXPECT_EQ(Bytes(a.bytes.begin(), a.bytes.end()), bytes);
  EXPECT_EQ(file.get("b", "F64", {1, 2}).bytes.size(), 16u);
  EXPECT_EQ(file.get("scalar", "I64", {}).bytes.size(), 8u);
  EXPECT_EQ(file.get("none", "F32", {0, 4}).bytes.size(), 0u);
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"x"});
}

TEST(SafetensorsTest, AFileDoesNotDependOnTheOrderInWhichItGetsItsTensors) {
  const TemporaryFolder folder;
  const Bytes bytes{1, 2, 3}, doubles(16, 9), halves(4, 5);
  const std::vector<TensorView> tensors{
      {"a", "U8", {3}, bytes}, {"b", "F64", {1, 2}, doubles}, {"none", "F32", {0, 4}, {}}, {"c", "BF16", {2}, halves}};
  write_safetensors(folder / "x", tensors, {{"step", "7"}});
  SafetensorsWriter writer(folder / "y", tensors, {{"step", "?"}});
  for (const size_t i : {3, 2, 0}) writer.put(tensors[i].name, tensors[i].bytes);
  EXPECT_THAT(error_of([&] { writer.commit({{"step", "7"}}); }), HasSubstr("tensor \"b\" was not written"));
  EXPECT_THAT(error_of([&] { writer.put("a", bytes); }), HasSubstr("expected 3, once"));
  EXPECT_THAT(error_of([&] { writer.put("d", bytes); }), HasSubstr("no such tensor"));
  writer.put("b", doubles);
  EXPECT_THAT(error_of([&] { writer.commit({{"step", std::string(100, '7')}}); }), HasSubstr("header of"));
  writer.commit({{"step", "7"}});
  EXPECT_EQ(testing_data::read_bytes(folder / "x"), testing_data::read_bytes(folder / "y"));
}

TEST(SafetensorsTest, MissingAndForeignTensorsAreNamed) {
  const TemporaryFolder folder;
  const Bytes bytes(4);
  write_safetensors(folder / "x", {{"a", "U8", {4}, bytes}});
  const Safetensors file(folder / "x");
  EXPECT_EQ(file.find("b"), nullptr);
  EXPECT_THAT(error_of([&] { file.get("b", "U8", {4}); }),
              HasSubstr("4 " + (folder / "x").string() + ": no tensor \"b\""));
  EXPECT_THAT(error_of([&] { file.get("a", "I8", {4}); }), HasSubstr("tensor \"a\" is U8 [4]; expected I8 [4]"));
  EXPECT_THAT(error_of([&] { file.get("a", "U8", {2, 2}); }), HasSubstr("is U8 [4]; expected U8 [2, 2]"));
  EXPECT_THAT(error_of([&] { Safetensors(folder / "y"); }), HasSubstr("3 "));
  EXPECT_THAT(error_of([&] { Safetensors(folder.path()); }), HasSubstr("3 "));
}

TEST(SafetensorsTest, ViewsThatDisagreeWithTheirShapeAreABug) {
  const TemporaryFolder folder;
  const Bytes bytes(4);
  EXPECT_THAT(error_of([&] { write_safetensors(folder / "x", {{"a", "F32", {2}, bytes}}); }), HasSubstr("has 4 bytes"));
  EXPECT_THAT(error_of([&] {
                write_safetensors(folder / "x", {{"a", "U8", {4}, bytes}, {"a", "U8", {4}, bytes}});
              }),
              HasSubstr("a name that occurs once"));
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(SafetensorsTest, HostileHeadersAreCorrupt) {
  const auto tensor = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return "{\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}";
  };
  const std::string four = R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "not JSON"},
      {"[]", "expected a JSON object"},
      {" {}", "header begins with"},
      {"{\"a\":1}", "tensor \"a\": is 1"},
      {"{\"a\":{\"dtype\":\"U8\"}}", "no list \"shape\""},
      {tensor("U8", "[4]", "[0,5]"), "expected begin and end within the 4 bytes"},
      {tensor("U8", "[4]", "[3,2]"), "expected begin and end"},
      {tensor("U8", "[4]", "[0]"), "expected begin and end"},
      {tensor("U8", "[4]", "[-1,4]"), "data_offsets holds -1"},
      {tensor("U8", "[4.0]", "[0,4]"), "shape holds 4.0"},
      {tensor("U8", "[18446744073709551616]", "[0,4]"), "expected whole numbers"},
      {tensor("U9", "[4]", "[0,4]"), "dtype is \"U9\""},
      {tensor("U8", "[3]", "[0,4]"), "holds 4 bytes; expected 3 for U8 [3]"},
      {tensor("F64", "[4294967296,4294967296]", "[0,4]"), "more than a file can hold"},
      // 8 times this number overflows to 8.
      {tensor("U64", "[2305843009213693953]", "[0,4]"), "more than a file can hold"},
      {tensor("U8", "[0,18446744073709551615,2]", "[0,4]"), "holds 4 bytes"},
      {tensor("U8", "[3]", "[1,4]"), "after a hole; expected byte"},
      {tensor("U8", "[3]", "[0,3]"), "expected the end of the file"},
      {"{}", "expected the end of the file"},
      {"{\"a\":" + four + ",\"b\":" + four + "}", "inside the tensor before it"},
      {"{\"a\":" + four + ",\"a\":" + four + "}", "key \"a\" occurs twice"},
      {"{\"__metadata__\":{\"x\":1},\"a\":" + four + "}", "__metadata__ \"x\" is 1; expected a text"},
      {"{\"__metadata__\":[],\"a\":" + four + "}", "__metadata__ is no object"},
      {tensor("U8", "[[4]]", "[0,4]"), "nested deeper than 3"},
      {std::string(100000, '['), "nested deeper than 3"},
      {"{\"a\":" + std::string(100000, '['), "nested deeper than 3"}};
  for (const auto& [header, expected] : cases)
    EXPECT_THAT(error_of_file(file_of(header, 4)), testing::AllOf(testing::StartsWith("4 "), HasSubstr(expected)))
        << header.substr(0, 100);
}

TEST(SafetensorsTest, AFileOfTorchSaveIsKnownByItsZip) {
  EXPECT_THAT(
      error_of_file({'P', 'K', 3, 4, 0, 0, 8, 8, 0, 0, 0, 0}),
      HasSubstr("a ZIP file, as torch.save() writes; expected a safetensors file, as safetensors.torch.save_file"));
}

TEST(SafetensorsTest, HeaderLongerThanTheFileIsCorrupt) {
  Bytes file = file_of("{}", 0);
  EXPECT_EQ(error_of_file(file), "");
  file[0] = 3;
  EXPECT_THAT(error_of_file(file), HasSubstr("header of 3 bytes in a file of 10"));
  std::fill_n(file.begin(), 8, uint8_t{0xFF});
  EXPECT_THAT(error_of_file(file), HasSubstr("header of 18446744073709551615 bytes"));
  EXPECT_THAT(error_of_file({1, 2, 3}), HasSubstr("3 bytes long; expected a safetensors file"));
  EXPECT_THAT(error_of_file({}), HasSubstr("0 bytes long"));
}

}  // namespace
}  // namespace penstock
