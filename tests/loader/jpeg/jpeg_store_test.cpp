// The coefficient store: every kernel writes the same bytes and reads back what was written, and broken bytes do no
// harm.
#include <gmock/gmock.h>

#include <cstring>
#include <memory>
#include <random>

#include "augment/render.h"
#include "core/error.h"
#include "loader/jpeg/store/codebook_training.h"
#include "loader/jpeg/store/store_source.h"
#include "loader/jpeg/store/store_writer.h"
#include "loader/jpeg/store/value_kernel.h"
#include "tests/loader/jpeg_coefficients_data.h"
#include "tests/support/forced_target.h"

namespace penstock::detail {
namespace {

using testing::HasSubstr;
using testing_data::baseline_options;
using testing_data::GroupReader;
using testing_data::JpegOptions;
using testing_data::libjpeg_coefficients;
using testing_data::TestJpeg;
using Coefficients = std::vector<int16_t>;

/// Gives coefficients from memory, MCU after MCU.
class MemorySource final : public CoefficientSource {
 public:
  MemorySource(const JpegGeometry& geometry, const Coefficients& all) : geometry_(geometry), all_(all) {}
  void read(int mcu_row, int begin, int end, const McuRun& run) override {
    const int block = (mcu_row * geometry_.mcu_columns + begin) * geometry_.mcu_blocks;
    std::memcpy(run.blocks, all_.data() + block * kBlockSize,
                sizeof(int16_t) * (end - begin) * geometry_.mcu_blocks * kBlockSize);
  }

 private:
  const JpegGeometry& geometry_;
  const Coefficients& all_;
};

/// A picture's coefficients and their store. The bytes are in an allocation of exactly their size, so that
/// AddressSanitizer detects a read after their end.
struct Stored {
  Stored(const JpegGeometry& picture, Coefficients coefficients, const Codebook& codebook)
      : geometry(picture), expected(std::move(coefficients)), bytes(encode(codebook)) {}
  JpegGeometry geometry;
  Coefficients expected;
  std::vector<uint8_t> bytes;

 private:
  std::vector<uint8_t> encode(const Codebook& codebook) {
    MemorySource source(geometry, expected);
    std::vector<uint8_t> encoded = StoreWriter(codebook, put_values_portable).write(geometry, source);
    for (const auto& [name, kernel] : value_kernels())
      EXPECT_TRUE(StoreWriter(codebook, kernel).write(geometry, source) == encoded) << name;
    encoded.shrink_to_fit();
    return encoded;
  }
};

JpegGeometry geometry_of(int height, int width, int components, int h, int v) {
  JpegHeader header;
  header.height = height, header.width = width, header.component_count = components;
  header.components[0].h = h, header.components[0].v = v;
  return JpegGeometry(header);
}

size_t coefficient_count(const JpegGeometry& geometry) {
  return size_t{1} * geometry.mcu_rows * geometry.mcu_columns * geometry.mcu_blocks * kBlockSize;
}

/// Blocks of 64 coefficients, of which about the share `density` is not 0, with magnitudes of up to `limit`. Small ones
/// are more frequent.
Coefficients random_coefficients(const JpegGeometry& geometry, double density, int limit, unsigned seed) {
  std::mt19937 random(seed);
  Coefficients all(coefficient_count(geometry));
  for (int16_t& value : all) {
    if (std::generate_canonical<double, 32>(random) >= density) continue;
    const int bound = std::max(1, limit >> random() % 16);
    value = static_cast<int16_t>(static_cast<int>(random() % (2 * bound + 1)) - bound);
  }
  return all;
}

TrainingSample sample_of(const JpegGeometry& geometry, const Coefficients& all) {
  MemorySource source(geometry, all);
  return sample_blocks(geometry, source, 4000);
}

/// A codebook that is trained once, on pictures of several qualities.
const Codebook& trained_codebook() {
  static const Codebook codebook = [] {
    TrainingSample sample;
    for (const int quality : {30, 75, 95}) {
      const TestJpeg jpeg(JpegOptions{.height = 160, .width = 200, .quality = quality});
      sample.append(sample_of(jpeg.geometry, libjpeg_coefficients(jpeg.bytes, jpeg.geometry)));
    }
    return train_codebook(sample, 2);
  }();
  return codebook;
}

void expect_round_trip(const Stored& stored, const Codebook& codebook, const std::string& what) {
  for (const auto& [name, kernel] : store_kernels()) {
    StoreSource source(stored.bytes, stored.geometry, codebook, kernel);
    EXPECT_EQ(GroupReader(stored.geometry).read_all(source), stored.expected) << what << ", " << name;
  }
}

TEST(JpegStoreTest, CoefficientsOfEverySamplingSizeAndQualityComeBack) {
  for (const auto& options : baseline_options()) {
    const TestJpeg jpeg(options);
    const Stored stored(jpeg.geometry, libjpeg_coefficients(jpeg.bytes, jpeg.geometry), trained_codebook());
    expect_round_trip(stored, trained_codebook(), options.name());
  }
}

TEST(JpegStoreTest, EveryValueOfEveryCoefficientComesBack) {
  // Block b has the value b - 32768 in one coefficient; which one depends on b.
  const JpegGeometry geometry = geometry_of(8 * 64, 8 * 1024, 1, 1, 1);
  for (const int step : {0, 1, 9}) {
    Coefficients all(coefficient_count(geometry));
    for (int b = 0; b < 65536; ++b) all[b * kBlockSize + b * step % kBlockSize] = static_cast<int16_t>(b - 32768);
    expect_round_trip(Stored(geometry, std::move(all), trained_codebook()), trained_codebook(), concat("step ", step));
  }
}

TEST(JpegStoreTest, BlocksOfManyExceptionsComeBack) {
  const JpegGeometry geometry = geometry_of(40, 200, 3, 2, 2);
  unsigned seed = 0;
  for (const double density : {0.01, 0.2, 1.0})
    for (const int limit : {1, 128, 1023, 1024, 32767})
      expect_round_trip(Stored(geometry, random_coefficients(geometry, density, limit, ++seed), trained_codebook()),
                        trained_codebook(), concat(density, " of values up to ", limit));
}

TEST(JpegStoreTest, EveryWidthsLastValuesComeBack) {
  auto widths = std::make_unique<std::array<ClassWidths, kStoreClasses>>();
  for (auto& entries : *widths)
    for (int entry = 0; entry < kTrainedEntries; ++entry) {
      const int first = entry % 9, others = std::min(first, 6);  // at most 2 x 8 + 6 x 6 bits in a row
      for (int k = 0; k < kBlockSize; ++k) entries[entry][k] = static_cast<uint8_t>(k % 8 < 2 ? first : others);
      entries[entry][0] = static_cast<uint8_t>(entry % (kMaxDcWidth + 1));
    }
  const Codebook codebook(*widths);
  const JpegGeometry geometry = geometry_of(8, 64, 1, 1, 1);
  for (int width = 0; width <= 9; ++width) {
    for (const int beyond : {-1, 0, 1}) {
      Coefficients all(coefficient_count(geometry));
      for (size_t i = 0; i < all.size(); ++i) {
        const int magnitude = (1 << (i % 8 < 2 ? width : std::min(width, 6)) >> 1) + beyond;
        all[i] = static_cast<int16_t>(i / kBlockSize % 2 == 0 ? magnitude : -magnitude);
      }
      expect_round_trip(Stored(geometry, std::move(all), codebook), codebook, concat(width, " bits, ", beyond));
    }
  }
}

TEST(JpegStoreTest, TheFormatsExampleHasItsBytes) {
  auto widths = std::make_unique<std::array<ClassWidths, kStoreClasses>>();
  EntryWidths& entry = (*widths)[0][0];
  entry[0] = 6, entry[1] = 3, entry[8] = 2, entry[9] = 2;
  const Codebook codebook(*widths);
  Coefficients block(kBlockSize);
  block[0] = -26, block[1] = 3, block[8] = -2, block[9] = 1, block[63] = 5;
  const Stored stored(geometry_of(8, 8, 1, 1, 1), block, codebook);
  EXPECT_EQ(stored.bytes, (std::vector<uint8_t>{0x06, 0, 0, 0, 0x08, 0, 0x01, 0xFD, 0, 0xDE, 0x8D, 0x80, 0xBF, 0}));
  expect_round_trip(stored, codebook, "example");
}

TEST(JpegStoreTest, AnyRunOfMcusInAnyOrderIsTheSame) {
  const JpegGeometry geometry = geometry_of(70, 333, 3, 2, 1);
  const Stored stored(geometry, random_coefficients(geometry, 0.2, 200, 5), trained_codebook());
  std::mt19937 random(6);
  for (const auto& [name, kernel] : store_kernels()) {
    StoreSource source(stored.bytes, geometry, trained_codebook(), kernel);
    GroupReader reader(geometry);
    for (int i = 0; i < 300; ++i) {
      const int row = static_cast<int>(random() % geometry.mcu_rows),
                begin = static_cast<int>(random() % geometry.mcu_columns);
      const int end = begin + 1 + static_cast<int>(random() % (geometry.mcu_columns - begin));
      const size_t mcu = size_t{1} * geometry.mcu_blocks * kBlockSize;
      const auto from = stored.expected.begin() + (row * geometry.mcu_columns + begin) * mcu;
      EXPECT_EQ(reader.read(source, row, begin, end), Coefficients(from, from + (end - begin) * mcu))
          << name << ", MCUs " << begin << " to " << end << " of row " << row;
    }
  }
}

/// The coefficients or the text of the error, for any bytes.
std::string outcome(const std::vector<uint8_t>& bytes, const JpegGeometry& geometry, StoreKernel kernel) {
  constexpr size_t kBlocks = kGroupMcus * kMaxMcuBlocks;
  alignas(64) static int16_t blocks[kBlocks * kBlockSize];
  uint8_t rows[kBlocks];
  std::string all;
  try {
    StoreSource source(bytes, geometry, trained_codebook(), kernel);
    for (int row = 0; row < geometry.mcu_rows; ++row) {
      for (int begin = 3; begin < geometry.mcu_columns; begin = (begin / kGroupMcus + 1) * kGroupMcus) {
        const int end = std::min((begin / kGroupMcus + 1) * kGroupMcus, geometry.mcu_columns);
        source.read(row, begin, end, {blocks, rows});
        const size_t count = static_cast<size_t>((end - begin) * geometry.mcu_blocks);
        for (size_t i = 0; i < count; ++i) EXPECT_LE(rows[i], 8);
        all.append(reinterpret_cast<const char*>(blocks), count * kBlockSize * sizeof(int16_t));
        all.append(reinterpret_cast<const char*>(rows), count);
      }
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << error.what();
    all.append(error.what());
  }
  return all;
}

void expect_same_outcome(const std::vector<uint8_t>& bytes, const JpegGeometry& geometry, const std::string& what) {
  const std::string portable = outcome(bytes, geometry, store_kernels()[0].kernel);
  for (const auto& [name, kernel] : store_kernels().subspan(1))
    EXPECT_EQ(outcome(bytes, geometry, kernel), portable) << name << ", " << what;
}

Stored small_picture() {
  const JpegGeometry geometry = geometry_of(20, 170, 3, 2, 2);
  Coefficients all = random_coefficients(geometry, 0.15, 60, 8);
  // These make exceptions and raw blocks.
  for (int i = 0; i < 3; ++i) all[i * 999 + 5] = static_cast<int16_t>(500 + 10000 * i);
  return {geometry, std::move(all), trained_codebook()};
}

TEST(JpegStoreTest, FlippedBitsGiveCoefficientsOrAnError) {
  const Stored stored = small_picture();
  std::mt19937 random(9);
  for (int i = 0; i < 6000; ++i) {
    std::vector<uint8_t> bytes = stored.bytes;
    for (unsigned k = random() % 4; k < 4; ++k)
      // Every second time the change is in the tables of groups or in the first heads.
      bytes[random() % (i % 2 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 100))] ^= 1 << random() % 8;
    expect_same_outcome(bytes, stored.geometry, concat("round ", i));
  }
}

TEST(JpegStoreTest, RandomBytesGiveCoefficientsOrAnError) {
  const JpegGeometry geometry = geometry_of(8, 64, 3, 1, 1);
  std::mt19937 random(10);
  for (int i = 0; i < 3000; ++i) {
    std::vector<uint8_t> bytes(6 + random() % 1200);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    const size_t length = bytes.size() - 6;
    std::fill_n(bytes.begin(), 4, uint8_t{0});
    bytes[0] = 6, bytes[4] = static_cast<uint8_t>(length), bytes[5] = static_cast<uint8_t>(length >> 8);
    if (bytes.size() > 6) bytes[6] %= 8;  // otherwise exceptions would take all bytes
    expect_same_outcome(bytes, geometry, concat("round ", i));
  }
}

TEST(JpegStoreTest, EveryTruncationGivesAnError) {
  const Stored stored = small_picture();
  for (size_t size = 0; size < stored.bytes.size(); ++size) {
    const std::vector<uint8_t> bytes(stored.bytes.begin(), stored.bytes.begin() + static_cast<std::ptrdiff_t>(size));
    for (const auto& [name, kernel] : store_kernels())
      EXPECT_THAT(outcome(bytes, stored.geometry, kernel), HasSubstr("coefficient store: ")) << name << ", " << size;
  }
}

TEST(JpegStoreTest, AnErrorNamesTheGroup) {
  Stored stored = small_picture();
  stored.bytes[4] = 0xFF, stored.bytes[7] = 0x7F;  // the begin of the second MCU row
  StoreSource source(stored.bytes, stored.geometry, trained_codebook());
  alignas(64) static int16_t blocks[kGroupMcus * kMaxMcuBlocks * kBlockSize];
  uint8_t rows[kGroupMcus * kMaxMcuBlocks];
  try {
    source.read(1, 0, 8, {blocks, rows});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("coefficient store: group 0 of MCU row 1 has bytes 2130707711 to"));
    EXPECT_THAT(error.what(), HasSubstr(concat("; expected them in the ", stored.bytes.size())));
  }
}

TEST(JpegStoreTest, MoreBlocksInAnMcuThanAScanHasAreRefused) {
  EXPECT_THROW(StoreSource(std::vector<uint8_t>(1000), geometry_of(8, 8, 3, 3, 3), trained_codebook()), Error);
}

TEST(CodebookTest, BytesComeBackAndBrokenOnesAreRefused) {
  const Codebook& codebook = trained_codebook();
  std::vector<uint8_t> bytes = codebook.bytes();
  EXPECT_LE(bytes.size(), 16384u);
  EXPECT_EQ(Codebook::parse(bytes).bytes(), bytes);
  EXPECT_EQ(Codebook::parse(bytes).tables().widths, codebook.tables().widths);
  bytes[1234] ^= 4;
  EXPECT_THROW(Codebook::parse(bytes), Error);
  bytes[1234] ^= 4;
  bytes.pop_back();
  EXPECT_THROW(Codebook::parse(bytes), Error);
}

TEST(CodebookTest, WidthsBeyondTheLimitsAreRefused) {
  EntryWidths widths{};
  widths[0] = kMaxDcWidth;
  for (int k = 1; k < 8; ++k) widths[k] = kMaxWidth;
  EXPECT_TRUE(valid_widths(widths));
  for (const auto& [k, width] : {std::pair{0, 13}, {1, 9}, {63, 9}}) {
    EntryWidths broken = widths;
    broken[k] = static_cast<uint8_t>(width);
    EXPECT_FALSE(valid_widths(broken)) << k;
  }
  for (int k = 16; k < 24; ++k) widths[k] = 7;
  EXPECT_TRUE(valid_widths(widths));
  widths[20] = 8;
  EXPECT_FALSE(valid_widths(widths));
}

TEST(CodebookTest, TrainingDependsOnTheSampleAlone) {
  const TestJpeg jpeg(JpegOptions{.height = 200, .width = 300});
  const TrainingSample sample = sample_of(jpeg.geometry, libjpeg_coefficients(jpeg.bytes, jpeg.geometry));
  const auto expected = train_codebook(sample, 1).bytes();
  EXPECT_EQ(train_codebook(sample, 3).bytes(), expected);
}

TEST(CodebookTest, TheEntriesOfASampleAreThoseOfATrainingWithoutShortcuts) {
  const JpegGeometry geometry = geometry_of(400, 400, 3, 2, 1);
  const auto bytes = train_codebook(sample_of(geometry, random_coefficients(geometry, 0.2, 300, 11)), 2).bytes();
  uint32_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + bytes.size() - sizeof checksum, sizeof checksum);
  EXPECT_EQ(checksum, 0xDC5344B3) << "expected the codebook of a training that assigns every block in every round";
}

TEST(CodebookTest, EveryInstructionSetTrainsTheSame) {
  const TestJpeg jpeg(JpegOptions{.height = 120, .width = 200});
  const TrainingSample sample = sample_of(jpeg.geometry, libjpeg_coefficients(jpeg.bytes, jpeg.geometry));
  const auto expected = train_codebook(sample, 1).bytes();
  for (const auto& name : render_targets()) {
    const test::ForcedTarget target(name);
    EXPECT_EQ(train_codebook(sample, 1).bytes(), expected) << name;
  }
}

TEST(CodebookTest, TrainingSavesBytes) {
  const TestJpeg jpeg(JpegOptions{.height = 400, .width = 400, .noise = 5});
  const auto all = libjpeg_coefficients(jpeg.bytes, jpeg.geometry);
  const Codebook own = train_codebook(sample_of(jpeg.geometry, all), 2), none = train_codebook({}, 1);
  const size_t own_bytes = Stored(jpeg.geometry, all, own).bytes.size();
  const size_t none_bytes = Stored(jpeg.geometry, all, none).bytes.size();
  EXPECT_LT(own_bytes, none_bytes * 3 / 4);
  EXPECT_LT(own_bytes, jpeg.bytes.size() * 6 / 5);
  expect_round_trip(Stored(jpeg.geometry, all, none), none, "a codebook without a sample");
}

}  // namespace
}  // namespace penstock::detail
