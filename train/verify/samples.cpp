// Samples: embedded digits, and the rows of a rank.
#include "train/verify/samples.h"

#include <algorithm>

#include "core/text.h"
#include "loader/sources/source.h"

namespace penstock {

Samples digit_samples(int64_t count) {
  const auto source = SourceRegistry::make(parse_spec("source", concat("digits(count=", count, ")")), "", "train");
  const ModelShape shape;
  Samples samples{torch::empty({count, shape.channels, shape.height, shape.width}, torch::kUInt8),
                  torch::empty({count}, torch::kInt64)};
  for (int64_t i = 0; i < count; ++i) {
    const auto sample = source->read(static_cast<uint64_t>(i));
    std::copy(sample.bytes.begin(), sample.bytes.end(), samples.images[i].data_ptr<uint8_t>());
    samples.labels[i] = source->label(static_cast<uint64_t>(i));
  }
  const auto levels = samples.images.to(torch::kFloat64);
  samples.images = (levels - levels.mean()) / levels.std();
  return samples;
}

DeviceBatch part_of(const Samples& samples, int64_t batch_size, int64_t index, int rank, int world_size,
                    ShortBatch short_batch) {
  const Partition partition(static_cast<uint64_t>(samples.labels.size(0)), batch_size, rank, world_size, Tail::kPad,
                            short_batch);
  const auto rows = partition.rows(index);
  DeviceBatch batch;
  batch.rows = partition.rows_per_rank();
  batch.count = rows.count;
  batch.global_count = rows.global_count;
  batch.index = index;
  batch.first_position = rows.first_position;
  auto sizes = samples.images.sizes().vec();
  sizes[0] = batch.rows;
  batch.images = torch::zeros(sizes, samples.images.options());
  const auto device = samples.images.device();
  batch.labels = torch::zeros({batch.rows}, torch::dtype(torch::kInt64).device(device));
  batch.weights = torch::zeros({batch.rows}, torch::dtype(torch::kFloat32).device(device));
  if (batch.count == 0) return batch;
  const auto first = static_cast<int64_t>(rows.first_position);
  batch.images.narrow(0, 0, batch.count).copy_(samples.images.narrow(0, first, batch.count));
  batch.labels.narrow(0, 0, batch.count).copy_(samples.labels.narrow(0, first, batch.count));
  batch.weights.narrow(0, 0, batch.count).fill_(1);
  return batch;
}

}  // namespace penstock
