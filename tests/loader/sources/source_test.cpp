// Sources: read foreign files as samples, and say what is wrong with such files.
#include "loader/sources/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/regular_file.h"
#include "tests/loader/make_source.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing_data::Bytes;
using testing_data::error_of;
using testing_data::error_of_source;
using testing_data::make_source;
using testing_data::TemporaryFolder;
using testing_data::write_bytes;
namespace fs = std::filesystem;

// mnist ---------------------------------------------------------------------------------------------------------------

/// An IDX file: magic, dimensions (big-endian), data.
Bytes idx(uint32_t magic, const std::vector<uint32_t>& dimensions, const Bytes& data) {
  Bytes file;
  std::vector<uint32_t> words{magic};
  words.insert(words.end(), dimensions.begin(), dimensions.end());
  for (const uint32_t word : words)
    for (const int shift : {24, 16, 8, 0}) file.push_back(static_cast<uint8_t>(word >> shift));
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

/// Writes two training pictures of 2 x 3 and one test picture.
void write_mnist(const fs::path& folder, const std::string& separator = "-") {
  write_bytes(folder / ("train-images" + separator + "idx3-ubyte"),
              idx(0x803, {2, 2, 3}, {1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16}));
  write_bytes(folder / ("train-labels" + separator + "idx1-ubyte"), idx(0x801, {2}, {7, 3}));
  write_bytes(folder / ("t10k-images" + separator + "idx3-ubyte"), idx(0x803, {1, 2, 3}, {21, 22, 23, 24, 25, 26}));
  write_bytes(folder / ("t10k-labels" + separator + "idx1-ubyte"), idx(0x801, {1}, {9}));
}

TEST(MnistTest, PicturesAndLabelsAreTheFiles) {
  for (const char* separator : {"-", "."}) {
    const TemporaryFolder folder;
    write_mnist(folder.path(), separator);
    const auto train = make_source("mnist", folder.path());
    ASSERT_EQ(train->size(), 2u);
    EXPECT_EQ(train->label(0), 7);
    EXPECT_EQ(train->label(1), 3);
    EXPECT_EQ(train->read(1).bytes, (Bytes{11, 12, 13, 14, 15, 16}));
    EXPECT_EQ(train->read(1).extent, (Extent{2, 3, 1}));
    EXPECT_EQ(train->raw_extent(), (Extent{2, 3, 1}));
    EXPECT_EQ(make_source("mnist", folder.path(), "test")->read(0).bytes[0], 21);
    const auto all = make_source("mnist", folder.path(), "all");
    ASSERT_EQ(all->size(), 3u);
    EXPECT_EQ(all->label(2), 9);
    EXPECT_EQ(all->read(2).bytes[0], 21);
  }
}

TEST(MnistTest, WrongFilesAreNamed) {
  const auto error_after = [](const std::string& name, const Bytes& file) {
    const TemporaryFolder folder;
    write_mnist(folder.path());
    write_bytes(folder / name, file);
    return error_of_source("mnist", folder.path());
  };
  const std::string images = "train-images-idx3-ubyte", labels = "train-labels-idx1-ubyte";
  EXPECT_THAT(error_after(images, idx(0x801, {2, 2, 3}, Bytes(12))),
              HasSubstr(images + ": magic number is 0x801; expected 0x803"));
  EXPECT_THAT(error_after(images, idx(0x803, {2, 2, 3}, Bytes(11))), HasSubstr("11 bytes of data; expected 12"));
  EXPECT_THAT(error_after(images, idx(0x803, {2, 2, 3}, Bytes(13))),
              HasSubstr("more than 12 bytes of data; expected 12"));
  EXPECT_THAT(error_after(images, idx(0x803, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {})),
              HasSubstr("0 bytes of data; expected"));
  EXPECT_THAT(error_after(images, Bytes(7)), HasSubstr("7 bytes; expected an IDX file"));
  EXPECT_THAT(error_after(labels, idx(0x801, {3}, {1, 2, 3})), HasSubstr("3 labels; expected 2"));
  EXPECT_THAT(error_after(labels, idx(0x801, {2}, {1, 10})), HasSubstr("label 1 is 10; expected 0 to 9"));
  for (const auto& error : {error_after(labels, Bytes(7)), error_after(images, {})})
    EXPECT_THAT(error, StartsWith("4 "));
}

TEST(MnistTest, AFileCalledGzThatIsNoneIsNamed) {
  const TemporaryFolder folder;
  write_mnist(folder.path());
  fs::rename(folder / "train-images-idx3-ubyte", folder / "train-images-idx3-ubyte.gz");
  EXPECT_THAT(error_of_source("mnist", folder.path()),
              testing::AllOf(StartsWith("4 "), HasSubstr("idx3-ubyte.gz: 28 bytes that are no gzip file; expected")));
}

TEST(MnistTest, MissingFilesAndFoldersAreNamed) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of_source("mnist", folder.path()),
              testing::AllOf(StartsWith("3 "), HasSubstr("no train-images-idx3-ubyte")));
  EXPECT_THAT(error_of_source("mnist", folder / "none"), testing::AllOf(StartsWith("3 "), HasSubstr("no such folder")));
  EXPECT_THAT(error_of_source("mnist", {}), testing::AllOf(StartsWith("2 "), HasSubstr("expected --input DIR")));
  EXPECT_THAT(error_of_source("mnist(size=3)", folder.path()), HasSubstr("unknown key \"size\"; it takes no keys"));
}

TEST(MnistTest, FingerprintFollowsTheFiles) {
  const TemporaryFolder folder;
  write_mnist(folder.path());
  const auto before = make_source("mnist", folder.path())->fingerprint();
  EXPECT_EQ(make_source("mnist", folder.path())->fingerprint(), before);
  const auto labels = folder / "train-labels-idx1-ubyte";
  fs::last_write_time(labels, fs::last_write_time(labels) + std::chrono::seconds(1));
  EXPECT_NE(make_source("mnist", folder.path())->fingerprint(), before);
}

// cifar10 -------------------------------------------------------------------------------------------------------------

/// One record: the label, then planes whose levels are 3 * pixel + channel, modulo 256.
Bytes cifar_record(uint8_t label) {
  Bytes record{label};
  for (int channel = 0; channel < 3; ++channel)
    for (int pixel = 0; pixel < 1024; ++pixel) record.push_back(static_cast<uint8_t>(3 * pixel + channel));
  return record;
}

void write_cifar(const fs::path& folder) {
  for (uint8_t number = 1; number <= 5; ++number)
    write_bytes(folder / ("data_batch_" + std::to_string(number) + ".bin"), cifar_record(number));
  write_bytes(folder / "test_batch.bin", cifar_record(9));
}

TEST(Cifar10Test, PlanesBecomePixels) {
  for (const char* inner : {"", "cifar-10-batches-bin"}) {
    const TemporaryFolder folder;
    write_cifar(folder.path() / inner);
    const auto train = make_source("cifar10", folder.path());
    ASSERT_EQ(train->size(), 5u);
    EXPECT_EQ(train->label(3), 4);
    const auto sample = train->read(3);
    EXPECT_EQ(sample.extent, (Extent{32, 32, 3}));
    ASSERT_EQ(sample.bytes.size(), 3072u);
    for (size_t i = 0; i < 3072; ++i) ASSERT_EQ(sample.bytes[i], i % 256) << i;
    EXPECT_EQ(make_source("cifar10", folder.path(), "test")->label(0), 9);
    EXPECT_EQ(make_source("cifar10", folder.path(), "all")->label(5), 9);
    EXPECT_EQ(train->class_names()[4], "deer");
  }
}

TEST(Cifar10Test, WrongFilesAreNamed) {
  const TemporaryFolder folder;
  write_cifar(folder.path());
  write_bytes(folder / "data_batch_3.bin", Bytes(3072));
  EXPECT_THAT(error_of_source("cifar10", folder.path()),
              HasSubstr("data_batch_3.bin: 3072 bytes; expected a multiple of 3073"));
  write_bytes(folder / "data_batch_3.bin", cifar_record(10));
  EXPECT_THAT(error_of_source("cifar10", folder.path()), HasSubstr("label at byte 0 is 10; expected 0 to 9"));
  fs::remove(folder / "data_batch_3.bin");
  EXPECT_THAT(error_of_source("cifar10", folder.path()),
              testing::AllOf(StartsWith("3 "), HasSubstr("no data_batch_3.bin")));
}

// files ---------------------------------------------------------------------------------------------------------------

TEST(ReadFileTest, GivesTheBytesOfRegularFilesAlone) {
  const TemporaryFolder folder;
  const Bytes bytes{1, 2, 3};
  write_bytes(folder / "a", bytes);
  write_bytes(folder / "empty", Bytes{});
  EXPECT_EQ(read_file(folder / "a", kMostOfText), bytes);
  EXPECT_EQ(read_file(folder / "empty", kMostOfText), Bytes{});
  EXPECT_THAT(error_of([&] { read_file(folder.path(), kMostOfText); }),
              testing::AllOf(StartsWith("3 "), HasSubstr("not a regular file")));
  EXPECT_THAT(error_of([&] { read_file(folder / "b", kMostOfText); }), HasSubstr("No such file"));
}

// digits --------------------------------------------------------------------------------------------------------------

constexpr uint32_t kDigitsGolden = 2538940891;  // CRC-32C of the first 50 pictures

TEST(DigitsTest, PicturesAreTheSameOnEveryMachine) {
  const auto source = make_source("digits");
  EXPECT_EQ(source->size(), 12000u);
  Bytes all;
  for (uint64_t i = 0; i < 50; ++i) {
    const auto sample = source->read(i);
    ASSERT_EQ(sample.bytes.size(), 784u);
    all.insert(all.end(), sample.bytes.begin(), sample.bytes.end());
  }
  EXPECT_EQ(crc32c(all), kDigitsGolden);
}

TEST(DigitsTest, KeysChooseCountSizeAndSeed) {
  const auto source = make_source("digits(count=30,size=40,seed=5)");
  EXPECT_EQ(source->size(), 30u);
  EXPECT_EQ(source->read(29).extent, (Extent{40, 40, 1}));
  EXPECT_EQ(source->read(3).bytes, make_source("digits(count=4,size=40,seed=5)")->read(3).bytes);
  EXPECT_NE(source->read(3).bytes, make_source("digits(count=4,size=40,seed=6)")->read(3).bytes);
  EXPECT_NE(source->fingerprint(), make_source("digits(count=30,size=40,seed=6)")->fingerprint());
  EXPECT_NE(source->fingerprint(), make_source("digits(count=31,size=40,seed=5)")->fingerprint());
  EXPECT_THAT(error_of_source("digits(count=0)", {}), HasSubstr("2 source digits: count is 0; expected 1 or more"));
  EXPECT_THAT(error_of_source("digits(size=7)", {}), HasSubstr("size is 7; expected 8 to 4096"));
  EXPECT_THAT(error_of_source("digits(seed=-1)", {}), HasSubstr("2 source digits: seed is -1; expected 0 or more"));
  for (const char* spec : {"digits(counts=7)", "digits(cuont=7)"})
    EXPECT_THAT(error_of_source(spec, {}), HasSubstr("did you mean \"count\"?"));
}

TEST(DigitsTest, SplitsAreDisjointAndBalanced) {
  const auto train = make_source("digits"), test = make_source("digits", {}, "test"),
             all = make_source("digits", {}, "all");
  EXPECT_EQ(test->size(), 2000u);
  EXPECT_EQ(all->size(), 14000u);
  std::set<std::string> seen;
  const auto is_new = [&](const SourceSample& sample) {
    return seen.emplace(sample.bytes.begin(), sample.bytes.end()).second;
  };
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(is_new(train->read(i)));
    EXPECT_TRUE(is_new(test->read(i)));
    EXPECT_EQ(train->label(i), static_cast<int64_t>(i % 10));
    EXPECT_EQ(all->read(i).bytes, train->read(i).bytes);
    EXPECT_EQ(all->read(12000 + i).bytes, test->read(i).bytes);
  }
}

}  // namespace
}  // namespace penstock
