// Small data sets of random pictures, in temporary folders, for the tests of the loader and its contracts.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/text.h"
#include "loader/batch/digest.h"
#include "loader/batch/loader.h"
#include "loader/shards/dataset.h"
#include "loader/shards/shard_writer.h"
#include "tests/loader/add_sample.h"

namespace penstock::testing_data {

/// A data set with one split, `train`. Sample i has id 1000 + i, label i mod 10 and random pixels.
class TestData {
 public:
  /// Writes shards of `shard_sizes` samples, whose extents take turns. Sample `undecodable`, if there is one, says that
  /// it is a PNG; its checksum is right, but it has no pixels that can be decoded. It needs two extents or more.
  explicit TestData(const std::vector<int>& shard_sizes, const std::vector<Extent>& extents = {{12, 12, 1}},
                    std::optional<uint64_t> undecodable = std::nullopt) {
    std::string pattern = (std::filesystem::temp_directory_path() / "penstock-test-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp " + pattern);
    folder_ = pattern;
    std::filesystem::create_directories(folder_ / "train");
    Manifest manifest;
    manifest.split = "train";
    manifest.source = "test";
    for (int i = 0; i < 10; ++i) manifest.class_names.push_back(std::to_string(i));
    manifest.class_counts.assign(10, 0);
    manifest.channels = extents[0].channels;
    if (extents.size() == 1) manifest.extent = extents[0];
    manifest.statistics = {extents[0].channels, {0.5, 0.4, 0.3}, {0.25, 0.2, 0.3}};
    std::mt19937 random(7);
    for (size_t shard = 0; shard < shard_sizes.size(); ++shard) {
      Manifest::Shard entry;
      entry.file = concat("shard-", shard, ".safetensors");
      entry.sample_count = static_cast<uint64_t>(shard_sizes[shard]);
      entry.xxh3 = std::string(32, '0');
      ShardWriter writer(folder_ / "train" / entry.file, manifest.extent);
      for (int row = 0; row < shard_sizes[shard]; ++row) {
        const uint64_t index = manifest.sample_count++;
        const Extent& extent = extents[index % extents.size()];
        std::vector<uint8_t> pixels(static_cast<size_t>(extent.height) * extent.width * extent.channels);
        for (auto& pixel : pixels) pixel = static_cast<uint8_t>(random());
        add_sample(writer, 1000 + index, static_cast<int64_t>(index % 10), extent,
                   index == undecodable ? Encoding::kPng : Encoding::kRaw, pixels);
        ++manifest.class_counts[index % 10];
      }
      entry.byte_count = writer.finish();
      manifest.shards.push_back(entry);
    }
    write_manifest(folder_ / "train", manifest);
  }
  ~TestData() { std::filesystem::remove_all(folder_); }
  TestData(const TestData&) = delete;
  TestData& operator=(const TestData&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  std::shared_ptr<const Dataset> open() const { return Dataset::open(folder_); }

  /// Flips a bit in the middle of the bytes of sample `index`.
  void corrupt(uint64_t index) const {
    std::filesystem::path file;
    std::streamoff offset = 0;
    {
      const auto dataset = open();
      int shard = 0;
      while (dataset->shard_begin(shard + 1) <= index) ++shard;
      file = folder_ / "train" / dataset->manifest().shards[static_cast<size_t>(shard)].file;
      const Sample sample = dataset->at(index);
      offset = static_cast<std::streamoff>(sample.byte_offset + sample.bytes.size() / 2);
    }
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(offset);
    const char byte = static_cast<char>(bytes.get() ^ 0x10);
    bytes.seekp(offset);
    bytes.put(byte);
  }

 private:
  std::filesystem::path folder_;
};

inline Pipeline pipeline_for(const Dataset& dataset, const std::string& spec) {
  return {spec, dataset.manifest().statistics};
}

inline Loader make_loader(const TestData& data, LoaderOptions options, const std::string& spec = "") {
  const auto dataset = data.open();
  return {dataset, pipeline_for(*dataset, spec), std::move(options)};
}

/// A copy of everything in a batch, so that batches can be compared after they were released.
struct BatchCopy {
  int64_t epoch, index, count, global_count;
  uint64_t first_position;
  std::vector<std::byte> pixels;
  std::vector<int64_t> labels;
  std::vector<uint64_t> ids;
  std::vector<float> weights;
  bool operator==(const BatchCopy&) const = default;

  explicit BatchCopy(const Batch& batch)
      : epoch(batch.epoch()),
        index(batch.index()),
        count(batch.count()),
        global_count(batch.global_count()),
        first_position(batch.first_position()),
        pixels(batch.pixels().begin(), batch.pixels().end()),
        labels(batch.labels().begin(), batch.labels().end()),
        ids(batch.ids().begin(), batch.ids().end()),
        weights(batch.weights().begin(), batch.weights().end()) {}
};

/// Consumes the rest of the epoch. Returns the number of batches.
inline int64_t consume(Loader& loader, const std::function<void(const Batch&)>& visit = {}) {
  int64_t batches = 0;
  while (const auto batch = loader.next()) {
    if (visit) visit(*batch);
    ++batches;
  }
  return batches;
}

}  // namespace penstock::testing_data
