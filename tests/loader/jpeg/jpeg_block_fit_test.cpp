// FitTable chooses the entry that a plain loop over all entries and coefficients chooses.
#include <gmock/gmock.h>

#include <memory>
#include <random>

#include "augment/render.h"
#include "loader/jpeg/entropy/huffman.h"
#include "loader/jpeg/store/block_fit.h"
#include "loader/jpeg/store/codebook_training.h"
#include "tests/loader/jpeg_coefficients_data.h"
#include "tests/support/forced_target.h"

namespace penstock::detail {
namespace {

using testing_data::JpegOptions;
using testing_data::TestJpeg;
using Widths = std::array<uint8_t, kBlockSize>;  // the need of each coefficient, 0 where it is 0

struct alignas(64) Block {
  std::array<int16_t, kBlockSize> values{};
};

Widths dense(std::span<const Need> needs) {
  Widths all{};
  for (const Need need : needs) all[coefficient_of(need)] = static_cast<uint8_t>(width_of(need));
  return all;
}

int plain_bits(const Widths& needs, const EntryWidths& widths) {
  int bits = widths[0];
  for (int k = 1; k < kBlockSize; ++k) bits += widths[k] > 0;
  for (int k = 0; k < kBlockSize; ++k) {
    if (needs[k] > widths[k])
      bits += kExceptionBits;
    else if (needs[k] > 0 && k > 0)
      bits += widths[k];
  }
  return bits;
}

BlockFit plain_fit(const Widths& needs, const ClassWidths& widths, int entry_count) {
  BlockFit best{0, INT32_MAX};
  for (int entry = 0; entry < entry_count; ++entry) {
    const int bits = plain_bits(needs, widths[entry]);
    if (bits < best.bits) best = {entry, bits};
  }
  return best;
}

/// Compares every list with the plain loop, on every instruction set and for numbers of entries around those of a
/// vector. Returns the number of bits of the costliest block.
int expect_plain_fits(const NeedLists& blocks, const ClassWidths& widths) {
  const auto fits = std::make_unique<FitTable>();
  int most_bits = 0;
  for (const int entry_count : {1, 3, 16, 17, 64, 65, 128, 129, 255}) {
    fits->set(widths, entry_count);
    std::vector<std::pair<int, int>> expected, found;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const BlockFit fit = plain_fit(dense(blocks[i]), widths, entry_count);
      expected.emplace_back(fit.entry, fit.bits);
      most_bits = std::max(most_bits, fit.bits);
    }
    for (const auto& name : render_targets()) {
      const test::ForcedTarget target(name);
      found.clear();
      for (size_t i = 0; i < blocks.size(); ++i) {
        const BlockFit fit = fits->best(blocks[i]);
        found.emplace_back(fit.entry, fit.bits);
      }
      EXPECT_TRUE(found == expected) << name << ", " << entry_count << " entries";
    }
  }
  return most_bits;
}

TrainingSample sample_of(int quality, size_t block_count) {
  const TestJpeg jpeg(JpegOptions{.height = 320, .width = 320, .quality = quality});
  HuffmanSource source(jpeg.header, jpeg.geometry, jpeg.bytes);
  return sample_blocks(jpeg.geometry, source, block_count);
}

TEST(BlockFitTest, BlocksOfPicturesGetTheEntryOfAPlainLoop) {
  TrainingSample sample;
  for (const int quality : {20, 60, 85, 95, 100}) sample.append(sample_of(quality, 300));
  const Codebook codebook = train_codebook(sample, 2);
  for (int i = 0; i < kStoreClasses; ++i) {
    ASSERT_GT(sample.blocks[i].size(), 300u);
    expect_plain_fits(sample.blocks[i], codebook.tables().widths[i]);
  }
}

/// Random blocks and random entries, a share of whose widths is 0. The second half of the entries repeats the first.
void expect_random_fits(double zero_share, double density, int least_bits) {
  std::mt19937 random(3);
  const auto chance = [&](double share) { return std::generate_canonical<double, 32>(random) < share; };
  auto widths = std::make_unique<ClassWidths>();
  for (int entry = 0; entry < kStoreEntries; ++entry) {
    if (entry >= kStoreEntries / 2) {
      (*widths)[entry] = (*widths)[entry - kStoreEntries / 2];
      continue;
    }
    (*widths)[entry][0] = static_cast<uint8_t>(random() % (kMaxDcWidth + 1));
    for (int k = 1; k < kBlockSize; ++k)
      (*widths)[entry][k] = static_cast<uint8_t>(chance(zero_share) ? 0 : 1 + random() % kMaxWidth);
  }
  NeedLists blocks;
  for (int i = 0; i < 200; ++i) {
    Block block;
    for (int16_t& value : block.values)
      if (chance(density)) value = static_cast<int16_t>(static_cast<int>(random() % 257) - 128);
    blocks.add(BlockNeeds(block.values.data(), i % 3 == 0 ? 0 : static_cast<int>(random() % 8192) - 4096).list());
  }
  EXPECT_GE(expect_plain_fits(blocks, *widths), least_bits);
}

TEST(BlockFitTest, RandomBlocksGetTheFirstOfEquallyCheapEntries) { expect_random_fits(0.2, 0.2, 0); }

// Every entry misses 32 of 63 coefficients, so that even the cheapest takes more bits than fit a byte.
TEST(BlockFitTest, SumsThatDoNotFitAByteAreCompared) { expect_random_fits(0.5, 1.0, 800); }

TEST(BlockFitTest, NeedsAreTheLeastWidths) {
  const Block block{{77, 1, -1, 2, -2, 3, -3, 127, 128, -128, -129, 32767, -32768, 64, 65}};
  const BlockNeeds needs(block.values.data(), 3);
  const Widths all = dense(needs.list());
  EXPECT_EQ(std::vector<int>(all.begin(), all.begin() + 16),
            (std::vector<int>{3, 1, 1, 2, 2, 3, 3, 8, 9, 8, 9, 9, 9, 7, 8, 0}));
  EXPECT_EQ(needs.dc(), 3);
  EXPECT_EQ(needs.ac_list().size(), 14u);
  EXPECT_TRUE(std::is_sorted(needs.list().begin(), needs.list().end()));
  EXPECT_EQ(BlockNeeds(Block{}.values.data(), 0).list().size(), 0u);
  for (const auto& [difference, need] : {std::pair{0, 0},
                                         {-1, 1},
                                         {1, 2},
                                         {-2, 2},
                                         {2, 3},
                                         {2047, 12},
                                         {-2048, 12},
                                         {2048, 13},
                                         {-2049, 13},
                                         {65535, 13}})
    EXPECT_EQ(dc_need(difference), need) << difference;
}

TEST(BlockFitTest, EveryNeedHasItsOwnNumber) {
  Need next = 0;
  for (int k = 0; k < kBlockSize; ++k) {
    for (int width = 1; width <= (k == 0 ? kNoFitDc : kNoFit); ++width, ++next) {
      EXPECT_EQ(need_of(k, width), next);
      EXPECT_EQ(coefficient_of(next), k);
      EXPECT_EQ(width_of(next), width);
    }
  }
  EXPECT_EQ(next, kNeedCount);
}

}  // namespace
}  // namespace penstock::detail
