// Shards: samples come back, the layout is what FORMAT.md promises, hostile shards are refused.
#include "loader/shards/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "loader/codecs/codec.h"
#include "loader/files/safetensors.h"
#include "loader/shards/shard_writer.h"
#include "tests/loader/add_sample.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing_data::Bytes;
using testing_data::error_of;
using testing_data::golden_pictures;
using testing_data::names_in;
using testing_data::read_bytes;
using testing_data::TemporaryFolder;
using testing_data::write_bytes;

TEST(Crc32cTest, MatchesThePublishedValues) {
  const std::string check = "123456789";
  EXPECT_EQ(crc32c({reinterpret_cast<const uint8_t*>(check.data()), check.size()}), 0xE3069283u);
  EXPECT_EQ(crc32c(Bytes(32, 0x00)), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(Bytes(32, 0xFF)), 0x62A8AB43u);
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c(Bytes(20, 0xFF), crc32c(Bytes(12, 0xFF))), 0x62A8AB43u);
}

Bytes pixels_of(int row, const Extent& extent) {
  Bytes pixels(static_cast<size_t>(extent.height) * extent.width * extent.channels);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(row * 31 + static_cast<int>(i));
  return pixels;
}

/// Writes raw pictures with the ids 100, 101, .. and the labels 0, 1, ..
void write_raw(const std::filesystem::path& path, const std::vector<Extent>& extents, bool is_one_size) {
  ShardWriter writer(path, is_one_size ? std::optional(extents.at(0)) : std::nullopt);
  for (size_t row = 0; row < extents.size(); ++row)
    testing_data::add_sample(writer, 100 + row, static_cast<int64_t>(row), extents[row], Encoding::kRaw,
                             pixels_of(static_cast<int>(row), extents[row]));
  const uint64_t byte_count = writer.finish();
  EXPECT_EQ(byte_count, std::filesystem::file_size(path));
}

void expect_raw(const std::filesystem::path& path, const std::vector<Extent>& extents) {
  const ShardReader shard(path);
  const Bytes file = read_bytes(path);
  ASSERT_EQ(shard.size(), extents.size());
  for (size_t row = 0; row < extents.size(); ++row) {
    const Sample sample = shard.at(row);
    const Bytes expected = pixels_of(static_cast<int>(row), extents[row]);
    EXPECT_EQ(sample.id, 100 + row);
    EXPECT_EQ(sample.label, static_cast<int64_t>(row));
    EXPECT_EQ(sample.extent, extents[row]);
    EXPECT_EQ(sample.encoding, Encoding::kRaw);
    EXPECT_EQ(sample.crc32c, sample_checksum(sample));
    EXPECT_EQ(Bytes(sample.bytes.begin(), sample.bytes.end()), expected);
    EXPECT_TRUE(
        std::equal(expected.begin(), expected.end(), file.begin() + static_cast<ptrdiff_t>(sample.byte_offset)));
    EXPECT_NO_THROW(shard.check_crc(row));
  }
}

TEST(ShardTest, RawPicturesOfOneSizeComeBack) {
  const TemporaryFolder folder;
  const std::vector<Extent> extents(5, {3, 7, 3});
  write_raw(folder / "s", extents, true);
  expect_raw(folder / "s", extents);
  EXPECT_EQ(Safetensors(folder / "s").get("images", "U8", {5, 3, 7, 3}).byte_offset, kShardHeaderBytes);
}

TEST(ShardTest, RawPicturesOfManySizesComeBack) {
  const TemporaryFolder folder;
  const std::vector<Extent> extents{{3, 7, 3}, {1, 1, 1}, {9, 2, 1}};
  write_raw(folder / "s", extents, false);
  expect_raw(folder / "s", extents);
  EXPECT_EQ(Safetensors(folder / "s").get("bytes", "U8", {63 + 1 + 18}).byte_offset, kShardHeaderBytes);
}

TEST(ShardTest, EncodingsMayBeMixed) {
  const TemporaryFolder folder;
  const auto pictures = golden_pictures();
  ShardWriter writer(folder / "s", {});
  for (const auto& golden : pictures)
    testing_data::add_sample(writer, 1, 0, golden.extent, detect_encoding(golden.file), golden.file);
  testing_data::add_sample(writer, 2, 0, {1, 1, 1}, Encoding::kRaw, Bytes{9});
  writer.finish();
  const ShardReader shard(folder / "s");
  for (size_t row = 0; row < pictures.size(); ++row) {
    const auto& golden = pictures[row];
    EXPECT_EQ(shard.at(row).encoding, detect_encoding(golden.file)) << golden.name;
    EXPECT_EQ(Bytes(shard.at(row).bytes.begin(), shard.at(row).bytes.end()), golden.file) << golden.name;
  }
}

TEST(ShardTest, EmptyShardsAreShards) {
  const TemporaryFolder folder;
  ShardWriter(folder / "images", Extent{4, 4, 1}).finish();
  ShardWriter(folder / "bytes", {}).finish();
  EXPECT_EQ(ShardReader(folder / "images").size(), 0u);
  EXPECT_EQ(ShardReader(folder / "bytes").size(), 0u);
}

TEST(ShardTest, ColumnsAreAlignedWhateverTheSizeOfThePictures) {
  for (int width = 1; width < 40; width += 3) {
    const TemporaryFolder folder;
    write_raw(folder / "s", std::vector<Extent>(3, {1, width, 1}), width % 2 == 0);
    const Safetensors file(folder / "s");
    for (const auto& tensor : file.tensors())
      EXPECT_EQ(tensor.byte_offset % dtype_bytes(tensor.dtype), 0u) << tensor.name;
    EXPECT_EQ(file.find("id")->byte_offset % 64, 0u);
  }
}

TEST(ShardTest, NothingStaysWithoutFinish) {
  const TemporaryFolder folder;
  {
    ShardWriter writer(folder / "s", {});
    testing_data::add_sample(writer, 1, 0, {1, 1, 1}, Encoding::kRaw, Bytes{9});
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{".penstock-0.tmp"});
  }
  EXPECT_TRUE(names_in(folder.path()).empty());
}

/// No file of this process can grow, which is an error as on a full disk.
class FullDisk {
 public:
  FullDisk() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit none{.rlim_cur = 0, .rlim_max = limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit limit_{};
  void (*handler_)(int);
};

TEST(ShardTest, FullDiskIsAnErrorAndLeavesNothing) {
  const TemporaryFolder folder;
  const FullDisk disk;
  const auto error = error_of([&] {
    ShardWriter writer(folder / "s", {});
    testing_data::add_sample(writer, 1, 0, {1, 1, 1}, Encoding::kRaw, Bytes{9});
    writer.finish();
  });
  EXPECT_THAT(error, testing::AllOf(testing::StartsWith("3 " + (folder / "s").string()), HasSubstr("File too large")));
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(ShardTest, WriterRefusesWhatItWasNotPromised) {
  const TemporaryFolder folder;
  ShardWriter writer(folder / "s", Extent{2, 2, 1});
  EXPECT_THAT(error_of([&] {
                testing_data::add_sample(writer, 7, 0, {2, 1, 1}, Encoding::kRaw, Bytes(2));
              }),
              HasSubstr("6 "));
  EXPECT_THAT(error_of([&] {
                testing_data::add_sample(writer, 7, 0, {2, 2, 1}, Encoding::kPng, Bytes(2));
              }),
              HasSubstr("id 7 is 2 x 2 x 1 in encoding 1"));
  ShardWriter other(folder / "t", {});
  EXPECT_THAT(error_of([&] {
                testing_data::add_sample(other, 7, 0, {65536, 1, 1}, Encoding::kRaw, Bytes(65536));
              }),
              HasSubstr("expected sides from 1"));
}

TEST(ShardTest, AFlippedBitInASampleNamesIt) {
  const TemporaryFolder folder;
  write_raw(folder / "s", std::vector<Extent>(5, {2, 2, 1}), true);
  Bytes file = read_bytes(folder / "s");
  file[kShardHeaderBytes + 3 * 4 + 1] ^= 4;
  write_bytes(folder / "s", file);
  const ShardReader shard(folder / "s");
  for (const size_t row : {0, 1, 2, 4}) EXPECT_NO_THROW(shard.check_crc(row));
  EXPECT_THAT(error_of([&] { shard.check_crc(3); }),
              testing::StartsWith("4 " + (folder / "s").string() + ": sample 3 (id 103) at byte 4108: crc32c is "));
}

/// A shard that is made by hand, so that it can be wrong.
struct HandMade {
  std::vector<uint64_t> id{5, 6}, offset{0, 4, 6};
  std::vector<int64_t> label{0, 1};
  std::vector<uint16_t> extent{2, 2, 1, 1, 2, 1};
  Bytes encoding{0, 0}, bytes{1, 2, 3, 4, 5, 6};
  std::vector<uint32_t> crc32c{0, 0};
  std::map<std::string, std::string> metadata{{kShardVersionKey, kShardVersion}};
  std::vector<TensorView> extra;
  std::string left_out;

  template <class Column>
  static TensorView view(const std::string& name, const std::string& dtype, std::vector<uint64_t> shape,
                         const Column& column) {
    return {name,
            dtype,
            std::move(shape),
            {reinterpret_cast<const uint8_t*>(column.data()), column.size() * sizeof(column[0])}};
  }

  std::string error() const {
    std::vector<TensorView> tensors{view("id", "U64", {id.size()}, id),
                                    view("label", "I64", {label.size()}, label),
                                    view("offset", "U64", {offset.size()}, offset),
                                    view("crc32c", "U32", {crc32c.size()}, crc32c),
                                    view("extent", "U16", {extent.size() / 3, 3}, extent),
                                    view("encoding", "U8", {encoding.size()}, encoding),
                                    view("bytes", "U8", {bytes.size()}, bytes)};
    std::erase_if(tensors, [&](const auto& tensor) { return tensor.name == left_out; });
    tensors.insert(tensors.end(), extra.begin(), extra.end());
    const TemporaryFolder folder;
    write_safetensors(folder / "s", tensors, metadata);
    return error_of([&] { ShardReader(folder / "s"); });
  }
};

TEST(ShardReaderTest, UnknownTensorsAreIgnored) {
  HandMade shard;
  EXPECT_EQ(shard.error(), "");
  const Bytes index{1, 2, 3};
  shard.extra = {{"seek_index", "U8", {3}, index}};
  EXPECT_EQ(shard.error(), "");
}

TEST(ShardReaderTest, HostileShardsAreCorrupt) {
  const Bytes pictures(8);
  const std::vector<std::pair<std::function<void(HandMade&)>, std::string>> cases{
      {[](auto& s) { s.metadata.clear(); }, "penstock_shard in the header's metadata is missing"},
      {[](auto& s) { s.metadata[kShardVersionKey] = "2"; }, "is \"2\"; expected a shard of format version 1"},
      {[](auto& s) { s.left_out = "id"; }, "no tensor \"id\"; expected U64 [any]"},
      {[](auto& s) { s.left_out = "crc32c"; }, "no tensor \"crc32c\"; expected U32 [2]"},
      {[](auto& s) { s.left_out = "offset"; }, "no tensor \"offset\"; expected U64 [3]"},
      {[](auto& s) { s.left_out = "bytes"; }, "neither of the tensors \"images\" and \"bytes\""},
      {[&](auto& s) {
         s.extra = {{"images", "U8", {2, 2, 2, 1}, pictures}};
       },
       "both of the tensors"},
      {[](auto& s) { s.label.push_back(1); }, "tensor \"label\" is I64 [3]; expected I64 [2]"},
      {[](auto& s) {
         s.offset = {0, 4};
       },
       "tensor \"offset\" is U64 [2]; expected U64 [3]"},
      {[](auto& s) {
         s.offset = {0, 7, 6};
       },
       "\"offset\" falls from 7 to 6 at row 1"},
      {[](auto& s) {
         s.offset = {1, 4, 6};
       },
       "runs from 1 to 6; expected 0 to 6"},
      {[](auto& s) {
         s.offset = {0, 4, 7};
       },
       "runs from 0 to 7; expected 0 to 6"},
      {[](auto& s) { s.encoding[1] = 9; }, "sample 1 (id 6) at byte"},
      {[](auto& s) { s.encoding[1] = 9; },
       "encoding is 9; expected one of 0 (raw), 1 (PNG), 2 (JPEG), 3 (JPEG coefficients), 4 (raw u16), 5 (raw f32)"},
      {[](auto& s) { s.encoding[1] = 4; }, "2 bytes of pixels; expected 4 for 1 x 2 x 1"},
      {[](auto& s) { s.encoding[1] = 1, s.extent[5] = 2; }, "extent is 1 x 2 x 2; expected 1 or 3 channels"},
      {[](auto& s) { s.encoding[1] = 3; }, "encoding is 3 (coefficients); expected the tensor \"codebook\" with it"},
      {[](auto& s) { s.extent[0] = 0; }, "extent is 0 x 2 x 1"},
      {[](auto& s) { s.extent[5] = 33; }, "extent is 1 x 2 x 33; expected 1 to 32 channels"},
      {[](auto& s) { s.extent[0] = s.extent[1] = 65535; }, "at most 268435456 pixels"},
      {[](auto& s) { s.extent[4] = 3; }, "2 bytes of pixels; expected 3"},
      {[&](auto& s) {
         s.left_out = "bytes";
         s.extra = {{"images", "U8", {2, 2, 2, 1}, pictures}};
       },
       "extent 1 x 2 x 1; expected raw pictures of 2 x 2 x 1"},
      {[&](auto& s) {
         s.left_out = "bytes";
         s.extra = {{"images", "U8", {2, 4}, pictures}};
       },
       "tensor \"images\" is U8 [2, 4]; expected U8 [2, any, any, any]"}};
  for (const auto& [break_it, expected] : cases) {
    HandMade shard;
    break_it(shard);
    EXPECT_THAT(shard.error(), testing::AllOf(testing::StartsWith("4 "), HasSubstr(expected)));
  }
}

TEST(ShardReaderTest, ForeignAndTruncatedFilesAreRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { ShardReader(folder / "none"); }), HasSubstr("No such file or directory"));
  write_raw(folder / "s", {{3, 7, 3}, {1, 1, 1}}, false);
  const Bytes whole = read_bytes(folder / "s");
  for (size_t size = 0; size < whole.size(); size += size < 16 || size > kShardHeaderBytes ? 1 : 97) {
    write_bytes(folder / "t", Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)));
    EXPECT_THAT(error_of([&] { ShardReader(folder / "t"); }), testing::StartsWith("4 ")) << size << " bytes";
  }
}

/// When any byte of the header or of a column changes, the shard is refused or all samples lie inside of the file.
TEST(ShardReaderTest, AnyChangedByteIsAnErrorOrAReadableShard) {
  const TemporaryFolder folder;
  write_raw(folder / "s", {{3, 7, 3}, {1, 1, 1}}, false);
  const Bytes whole = read_bytes(folder / "s");
  for (size_t at = 0; at < whole.size(); at += at < 16 || at >= kShardHeaderBytes ? 1 : 5) {
    for (const uint8_t change : {0x01, 0x10, 0x80}) {
      Bytes file = whole;
      file[at] ^= change;
      write_bytes(folder / "t", file);
      uint64_t sum = 0;
      const auto error = error_of([&] {
        const ShardReader shard(folder / "t");
        for (size_t row = 0; row < shard.size(); ++row)
          for (const uint8_t byte : shard.at(row).bytes) sum += byte;
      });
      ASSERT_TRUE(error.empty() || error[0] == '4') << "byte " << at << ": " << error;
    }
  }
}

}  // namespace
}  // namespace penstock
