// Excerpts: each asks what it is made of for every sample.
#include "tools/shardprep/excerpt.h"

#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/files/read_from.h"
#include "loader/shards/dataset.h"

namespace penstock {
namespace {

class Excerpt final : public Source {
 public:
  Excerpt(std::shared_ptr<const Source> source, uint64_t count) : source_(std::move(source)), count_(count) {}

  uint64_t size() const override { return count_; }
  std::vector<std::string> class_names() const override { return source_->class_names(); }
  int64_t label(uint64_t index) const override { return source_->label(place(index)); }
  std::string fingerprint() const override { return source_->fingerprint() + std::to_string(count_); }
  std::string where(uint64_t index) const override { return source_->where(place(index)); }
  std::string path(uint64_t index) const override { return source_->path(place(index)); }
  std::optional<Extent> raw_extent() const override { return source_->raw_extent(); }
  PixelType raw_pixels() const override { return source_->raw_pixels(); }

  SourceSample read(uint64_t index) const override {
    SourceSample sample = source_->read(place(index));
    sample.fields.clear();
    return sample;
  }

 private:
  uint64_t place(uint64_t index) const { return index * source_->size() / count_; }

  std::shared_ptr<const Source> source_;
  uint64_t count_;
};

class PackedSource final : public Source {
 public:
  explicit PackedSource(const std::filesystem::path& folder)
      : dataset_(Dataset::open(folder, "", {})), is_raw_(dataset_->manifest().extent && all_raw()) {
    const Manifest& manifest = dataset_->manifest();
    if (is_raster(manifest.pixels, manifest.channels))
      throw config_error(concat(folder.string(), ": pictures have ", pixels_text(manifest.pixels, manifest.channels),
                                ", which are stored raw alone; expected 1 or 3 channels of u8"));
  }

  uint64_t size() const override { return dataset_->size(); }
  std::vector<std::string> class_names() const override { return dataset_->manifest().class_names; }
  int64_t label(uint64_t index) const override { return dataset_->at(index).label; }
  /// For what may be done with them: read() leaves them out.
  std::vector<FieldType> fields() const override { return dataset_->manifest().fields; }
  std::string fingerprint() const override { return dataset_->folder().string(); }
  std::string where(uint64_t index) const override { return dataset_->where(index); }
  std::optional<Extent> raw_extent() const override { return is_raw_ ? dataset_->manifest().extent : std::nullopt; }

  SourceSample read(uint64_t index) const override {
    const Sample sample = dataset_->checked_at(index);
    SourceSample found;
    found.extent = sample.extent;
    read_from(*dataset_, index, [&] {
      if (is_raw_) {
        found.bytes.assign(sample.bytes.begin(), sample.bytes.end());
        return;
      }
      found.bytes = codec_for(sample.encoding).file(sample);  // raw pixels beside files become PNG
      found.encoding = detect_encoding(found.bytes);
    });
    return found;
  }

 private:
  bool all_raw() const {
    for (uint64_t i = 0; i < dataset_->size(); ++i)
      if (dataset_->at(i).encoding != Encoding::kRaw) return false;
    return true;
  }

  std::shared_ptr<const Dataset> dataset_;
  bool is_raw_;
};

}  // namespace

std::unique_ptr<Source> excerpt_of(std::shared_ptr<const Source> source, uint64_t count) {
  return std::make_unique<Excerpt>(std::move(source), count);
}

std::unique_ptr<Source> packed_source(const std::filesystem::path& split_folder) {
  return std::make_unique<PackedSource>(split_folder);
}

}  // namespace penstock
