// PhotoData: enlarges and packs the photographs, once per process.
#include "bench/loader/photo_data.h"

#include <stdlib.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <tuple>

#include "augment/render.h"
#include "core/regular_file.h"
#include "loader/codecs/codec.h"
#include "loader/jpeg/entropy/write_jpeg.h"
#include "loader/pack/pack.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// A temporary folder that is removed when the process ends.
struct ScratchFolder {
  ScratchFolder() {
    std::string pattern = (fs::temp_directory_path() / "penstock-photos-XXXXXX").string();
    if (!mkdtemp(pattern.data())) std::abort();
    path = pattern;
  }
  ~ScratchFolder() { fs::remove_all(path); }
  fs::path path;
};

const fs::path& scratch_folder() {
  static const ScratchFolder folder;
  return folder.path;
}

std::vector<uint8_t> enlarged(std::span<const uint8_t> file) {
  Sample sample{.encoding = Encoding::kJpeg, .bytes = file};
  const Codec& codec = codec_for(sample.encoding);
  sample.extent = codec.probe(file);
  DecodeScratch scratch;
  const auto [height, width, channels] = sample.extent;
  const Picture picture = codec.decode(sample, {.region = {0, 0, width, height}, .channels = channels}, scratch);
  Plan plan = Plan::identity(height, width);
  plan.resample(Affine::scaling(0.5, 0.5), 2 * height, 2 * width);
  plan.filter = Filter::kBilinear;
  const Extent twice{2 * height, 2 * width, channels};
  std::vector<uint8_t> pixels(rendered_bytes(Layout::kU8Nhwc, twice));
  render(picture, plan, {}, Layout::kU8Nhwc, pixels.data());
  const ptrdiff_t stride = ptrdiff_t{twice.width} * channels;
  return detail::write_jpeg({pixels.data(), stride, twice.height, twice.width, channels, 0, 0}, 90);
}

/// A folder whose one class folder holds the enlarged photographs.
fs::path enlarged_folder() {
  const fs::path folder = scratch_folder() / "enlarged";
  if (!fs::create_directories(folder / "photos")) return folder;
  for (const auto& entry : fs::directory_iterator(photo_folder())) {
    if (!entry.is_regular_file() || entry.path().extension() != ".JPEG") continue;
    const auto bytes = enlarged(read_file(entry.path(), UINT64_MAX));
    std::ofstream(folder / "photos" / entry.path().filename(), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  return folder;
}

}  // namespace

fs::path photo_folder() {
  const char* data = std::getenv("PENSTOCK_DATA");
  const auto folder = fs::path(data ? data : "../shared/data") / "imagenet-sample";
  return fs::is_directory(folder) ? folder : fs::path();
}

const std::shared_ptr<const Dataset>& packed_photos(const StorageOptions& storage, bool is_enlarged) {
  using Key = std::tuple<Encode, int, double, bool>;
  static std::map<Key, std::shared_ptr<const Dataset>> packed;
  auto& dataset = packed[{storage.encode, storage.resize_short, storage.raw_share, is_enlarged}];
  if (dataset) return dataset;
  PackOptions options;
  options.source = "image-folder";
  options.input = is_enlarged ? enlarged_folder() : photo_folder();
  options.output = scratch_folder() / std::to_string(packed.size());
  options.shard_count = 1;
  options.storage = storage;
  pack(options);
  return dataset = Dataset::open(options.output);
}

}  // namespace penstock
