// decode_group(): from the coefficient store (loader/jpeg/store/store_format.h) to samples, one warp per group of 8
// MCUs.
//
//   one thread per block    its entry; from sums over the entries before it, its DC field and its mask;
//                           from sums over the masks before it, its values
//   one thread per column   of four blocks at a time: dequantise and transform columns
//   one thread per line     of the same four blocks: transform lines and write samples
//
// The result is that of StoreSource and of PixelKernels::idct to the bit, for every content of the store.
#pragma once

#include "core/device_math.h"
#include "loader/device/group_sums.h"
#include "loader/device/job.h"
#include "loader/device/store_bits.h"
#include "loader/device/thread_block.h"
#include "loader/jpeg/pixels/pixel_math.h"

namespace penstock::detail {

/// Decodes one group of one row of the batch.
/// Errors: a group that StoreSource refuses leaves its samples as they were and sets the row's status to 1.
class GroupDecoder {
 public:
  GroupDecoder(const ThreadBlock& block, GroupShared& shared, const KernelArguments& given, int row, uint64_t task)
      : block_(block),
        shared_(shared),
        given_(given),
        row_(row),
        job_(given.jobs[row]),
        book_(given.codebooks[job_.codebook]),
        bits_(given.stores + job_.store / 4, job_.store_bytes) {
    const int first = job_.mcus.left / kGroupMcus;
    const int groups = divided_up(job_.mcus.right, kGroupMcus) - first;
    mcu_row_ = job_.mcus.top + static_cast<int>(task / static_cast<uint64_t>(groups));
    group_ = first + static_cast<int>(task % static_cast<uint64_t>(groups));
    const int mcu = group_ * kGroupMcus;
    const int mcu_end = mcu + kGroupMcus < job_.mcu_columns ? mcu + kGroupMcus : job_.mcu_columns;
    block_count_ = (mcu_end - mcu) * job_.mcu_blocks;
    begin_ = job_.mcus.left > mcu ? (job_.mcus.left - mcu) * job_.mcu_blocks : 0;
    end_ = job_.mcus.right < mcu_end ? (job_.mcus.right - mcu) * job_.mcu_blocks : block_count_;
  }

  void run() {
    if (!find() || !sum_heads() || !sum_values()) {
      block_.each([&](int thread) {
        if (thread == 0) given_.status[row_] = 1;
      });
      return;
    }
    for (int first = begin_; first < end_; first += kChunk) {
      const int count = end_ - first < kChunk ? end_ - first : kChunk;
      decode(first, count);
      for (int i = 0; i < count; i += kBlocksAtOnce) transform(first, i, count);
    }
  }

 private:
  /// Where a block of the group lies.
  struct Place {
    int component, x, y;  // blocks of the component
  };

  int component_of(int block) const {
    const int k = block % job_.mcu_blocks;
    int component = 0;
    while (component + 1 < job_.component_count && k >= job_.components[component + 1].first_block) ++component;
    return component;
  }

  Place place_of(int block) const {
    const int component = component_of(block);
    const ComponentJob& part = job_.components[component];
    const int k = block % job_.mcu_blocks - part.first_block;
    return {component, (group_ * kGroupMcus + block / job_.mcu_blocks) * part.h + k % part.h,
            mcu_row_ * part.v + k / part.h};
  }

  /// Sets where the group's bytes are. False when they are not in the store.
  bool find() {
    const uint64_t row_groups = static_cast<uint64_t>(divided_up(job_.mcu_columns, kGroupMcus));
    const uint64_t lengths =
        4 * static_cast<uint64_t>(job_.mcu_rows) + 2 * row_groups * static_cast<uint64_t>(mcu_row_);
    const auto length_of = [&](int group) { return bits_.bits(8 * (lengths + 2 * static_cast<uint64_t>(group)), 16); };
    block_.each([&](int thread) {
      uint32_t sum = 0;
      for (int i = thread; i < group_; i += block_.size) sum += length_of(i);
      shared_.lengths[thread] = sum;
    });
    at_ = bits_.bits(32 * static_cast<uint64_t>(mcu_row_), 32);
    for (int i = 0; i < block_.size; ++i) at_ += shared_.lengths[i];
    length_ = length_of(group_);
    return at_ <= job_.store_bytes && length_ <= job_.store_bytes - at_;
  }

  /// Looks up the entries, and sums the bits that they need. False when the group is too short for them.
  bool sum_heads() {
    const int head_bytes = 1 + job_.component_count + block_count_;
    if (length_ < static_cast<uint32_t>(head_bytes)) return false;
    const uint64_t entries = at_ + 1 + static_cast<uint64_t>(job_.component_count);
    block_.each([&](int thread) {
      for (int i = thread; i < block_count_; i += block_.size) {
        const int first = job_.component_count == 3 && component_of(i) > 0 ? kStoreEntries : 0;
        const int entry = bits_.byte(entries + static_cast<uint64_t>(i));
        shared_.entries[i] = static_cast<uint16_t>(first + entry);
        shared_.heads[0][i] = book_.widths[first + entry][0] |
                              static_cast<uint32_t>(book_.mask_bits[first + entry]) << 10 |
                              (entry == kRawEntry ? 1u << 23 : 0);
      }
    });
    heads_ = prefix_sums(block_, shared_.heads, block_count_);
    const uint32_t total = shared_.heads[heads_][block_count_ - 1];
    exception_count_ = bits_.byte(at_);
    const uint64_t tail_bytes = exception_count_ * kExceptionBytes + (total >> 23) * kRawBytes;
    dc_bit_ = 8 * (at_ + static_cast<uint64_t>(head_bytes));
    mask_bit_ = dc_bit_ + (total & 1023);
    value_bit_ = mask_bit_ + (total >> 10 & 8191);
    const uint64_t group_end = 8 * (at_ + length_);
    if (value_bit_ + 8 * tail_bytes > group_end) return false;
    bit_end_ = group_end - 8 * tail_bytes;
    return true;
  }

  /// Reads DC fields and masks, and sums the differences and the bits of values. False when the group is too short.
  bool sum_values() {
    block_.each([&](int thread) {
      for (int i = thread; i < block_count_; i += block_.size) {
        const uint32_t before = i == 0 ? 0 : shared_.heads[heads_][i - 1];
        const int entry = shared_.entries[i], width = book_.widths[entry][0];
        const uint32_t field = bits_.bits(dc_bit_ + (before & 1023), width);
        const uint64_t difference = field + 2048 - (1u << width >> 1);
        shared_.chains[0][i] = difference << 21 * component_of(i);
        const uint64_t mask = bits_.long_bits(mask_bit_ + (before >> 10 & 8191), book_.mask_bits[entry]);
        shared_.masks[i] = mask;
        uint32_t value_bits = 0;
        for (uint64_t rest = mask; rest != 0; rest &= rest - 1)
          value_bits += book_.widths[entry][book_.order[entry][trailing_zeros(rest)]];
        shared_.values[0][i] = value_bits;
      }
    });
    chains_ = prefix_sums(block_, shared_.chains, block_count_);
    values_ = prefix_sums(block_, shared_.values, block_count_);
    return value_bit_ + shared_.values[values_][end_ - 1] <= bit_end_;
  }

  int16_t dc_of(int block) const {
    const int component = component_of(block);
    const ComponentJob& part = job_.components[component];
    const int k = block % job_.mcu_blocks - part.first_block;
    const int in_chain = block / job_.mcu_blocks * part.h * part.v + k + 1;
    const int sum = static_cast<int>(shared_.chains[chains_][block] >> 21 * component & ((1u << 21) - 1));
    const int base = static_cast<int8_t>(bits_.byte(at_ + 1 + static_cast<uint64_t>(component)));
    return static_cast<int16_t>(base * kDcBaseStep + sum - 2048 * in_chain);
  }

  /// Writes the coefficients of `count` blocks from `first` on.
  void decode(int first, int count) {
    block_.each([&](int thread) {
      for (int i = thread; i < count * kBlockStride; i += block_.size) shared_.blocks[i] = 0;
    });
    block_.each([&](int thread) {
      for (int i = thread; i < count; i += block_.size) decode_block(first + i, shared_.blocks + i * kBlockStride);
    });
  }

  void decode_block(int block, int16_t* out) const {
    const int entry = shared_.entries[block];
    uint64_t bit = value_bit_ + (block == 0 ? 0 : shared_.values[values_][block - 1]);
    for (uint64_t rest = shared_.masks[block]; rest != 0; rest &= rest - 1) {
      const int k = book_.order[entry][trailing_zeros(rest)], width = book_.widths[entry][k];
      const int value = static_cast<int>(bits_.bits(bit, width)) - (1 << width >> 1);
      out[k] = static_cast<int8_t>(value + (value >= 0));  // the highest field of 8 bits gives -128
      bit += static_cast<uint64_t>(width);
    }
    out[0] = dc_of(block);
    apply_exceptions(block, out);
    if (entry % kStoreEntries == kRawEntry) copy_raw(block, out);
  }

  /// Each thread looks through all exceptions of the group, because those of a block need not be neighbours in a
  /// damaged store, and the last one must win as on the processor. A group has few: one block in ten has one.
  void apply_exceptions(int block, int16_t* out) const {
    for (uint32_t i = 0; i < exception_count_; ++i) {
      const uint32_t exception = bits_.bits(bit_end_ + 8 * kExceptionBytes * i, 24);
      if (static_cast<int>(exception & 127) != block) continue;
      constexpr int kSign = 1 << (kExceptionValueBits - 1);
      out[exception >> 7 & 63] = static_cast<int16_t>((static_cast<int>(exception >> 13) ^ kSign) - kSign);
    }
  }

  void copy_raw(int block, int16_t* out) const {
    const uint32_t before = block == 0 ? 0 : shared_.heads[heads_][block - 1] >> 23;
    const uint64_t from = bit_end_ + 8 * (kExceptionBytes * exception_count_ + kRawBytes * before);
    for (int k = 0; k < kBlockSize; ++k)
      out[k] = static_cast<int16_t>(bits_.bits(from + 16 * static_cast<uint64_t>(k), 16));
  }

  /// Transforms the blocks first + i .. first + i + kBlocksAtOnce - 1 of a chunk of `count`.
  void transform(int first, int i, int count) {
    block_.each([&](int thread) {
      const int slot = thread / kColumns;
      if (i + slot < count)
        transform_column(first + i + slot, shared_.blocks + (i + slot) * kBlockStride, thread % kColumns,
                         shared_.lines[slot]);
    });
    block_.each([&](int thread) {
      const int slot = thread / kColumns;
      if (i + slot < count)
        transform_line(first + i + slot, shared_.blocks[(i + slot) * kBlockStride], thread % kColumns,
                       shared_.lines[slot]);
    });
  }

  void transform_column(int block, const int16_t* coefficients, int column, int16_t (*lines)[8]) const {
    const ComponentJob& part = job_.components[component_of(block)];
    const int16_t* quant = given_.quant_tables[part.quant].factors;
    if (part.dct_size == 8) return idct_column<8>(coefficients, quant, column, lines);
    if (part.dct_size == 4) return idct_column<4>(coefficients, quant, column, lines);
    if (part.dct_size == 2) return idct_column<2>(coefficients, quant, column, lines);
  }

  void transform_line(int block, int16_t dc, int line, const int16_t (*lines)[8]) const {
    const Place place = place_of(block);
    const ComponentJob& part = job_.components[place.component];
    const Box& wanted = part.blocks;
    if (line >= part.dct_size || place.x < wanted.left || place.x >= wanted.right || place.y < wanted.top ||
        place.y >= wanted.bottom)
      return;
    uint8_t* out = given_.scratch + part.plane +
                   static_cast<ptrdiff_t>((place.y - wanted.top) * part.dct_size + line) * part.stride +
                   (place.x - wanted.left) * part.dct_size;
    if (part.dct_size == 8) return idct_row<8>(lines[line], out);
    if (part.dct_size == 4) return idct_row<4>(lines[line], out);
    if (part.dct_size == 2) return idct_row<2>(lines[line], out);
    *out = idct_one(dc, given_.quant_tables[part.quant].factors[0]);
  }

  const ThreadBlock& block_;
  GroupShared& shared_;
  const KernelArguments& given_;
  const int row_;
  const RowJob& job_;
  const DeviceCodebook& book_;
  const StoreBits bits_;
  int mcu_row_, group_, block_count_;
  int begin_, end_;  // blocks of the group that are wanted
  uint64_t at_ = 0;  // position of the group in the store
  uint32_t length_ = 0, exception_count_ = 0;
  uint64_t dc_bit_ = 0, mask_bit_ = 0, value_bit_ = 0, bit_end_ = 0;
  int heads_ = 0, chains_ = 0, values_ = 0;  // the halves with the sums
};

/// Task: a group of the batch, in the order of rows, then of MCU rows. Block: kGroupThreads.
inline void decode_group(const ThreadBlock& block, GroupShared& shared, const KernelArguments& given, uint64_t task) {
  const int row = row_of_task(given.jobs, given.row_count, &RowJob::first_group, task);
  GroupDecoder(block, shared, given, row, task - given.jobs[row].first_group).run();
}

}  // namespace penstock::detail
