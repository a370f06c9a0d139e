// penstock._native.Dataset and sheet(): single samples, and many of them on one sheet, as NumPy arrays.
#include "loader/shards/dataset.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <utility>

#include "loader/batch/option_names.h"
#include "loader/codecs/codec.h"
#include "loader/look/picture.h"
#include "loader/look/sheet.h"
#include "loader/shards/pipeline_of.h"
#include "python/src/fields.h"
#include "python/src/module.h"

namespace penstock::python {
namespace {

using nanobind::literals::operator""_a;

/// nanobind takes no shared_ptr to a const object.
struct OpenDataset {
  std::shared_ptr<const Dataset> dataset;
};

/// Ids and labels of all samples, in their order, as bytes of int64. It reads what shards say of their samples, and no
/// picture.
nb::tuple ids_and_labels(const OpenDataset& self) {
  const Dataset& dataset = *self.dataset;
  std::vector<int64_t> ids(dataset.size()), labels(dataset.size());
  {
    const Unlocked released;
    for (uint64_t index = 0; index < dataset.size(); ++index) {
      const Sample sample = dataset.at(index);
      ids[index] = static_cast<int64_t>(sample.id);
      labels[index] = sample.label;
      dataset.check_read(index);
    }
  }
  return nb::make_tuple(bytes_of(ids), bytes_of(labels));
}

/// The paths of all samples, in their order, each with a 0 after it, which no path has.
nb::bytes paths(const OpenDataset& self) {
  const Dataset& dataset = *self.dataset;
  std::string all;
  {
    const Unlocked released;
    for (uint64_t index = 0; index < dataset.size(); ++index) {
      all.append(dataset.at(index).path).push_back('\0');
      dataset.check_read(index);
    }
  }
  return nb::bytes(all.data(), all.size());
}

/// The values of a field of these samples, one after the other, and where each begins, as bytes of int64; the last
/// entry is where the last value ends.
nb::tuple field_values(const OpenDataset& self, size_t number, const std::vector<uint64_t>& indices) {
  std::string values;
  std::vector<int64_t> begins{0};
  {
    const Unlocked released;
    for (const uint64_t index : indices) {
      const HeldField field = self.dataset->field(index, number);
      values.append(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
      begins.push_back(static_cast<int64_t>(values.size()));
    }
  }
  return nb::make_tuple(nb::bytes(values.data(), values.size()), bytes_of(begins));
}

/// Whose mean and deviation `normalize` takes, and these.
nb::tuple statistics_tuple(const OpenDataset& self) {
  const auto [split, values] = normalize_statistics(*self.dataset);
  const auto channels = static_cast<size_t>(values.channels);
  return nb::make_tuple(split, std::vector(values.mean.begin(), values.mean.begin() + channels),
                        std::vector(values.deviation.begin(), values.deviation.begin() + channels));
}

/// The data sets of several, as (folder, index of the first sample, index after the last one).
nb::list part_tuples(const OpenDataset& self) {
  nb::list list;
  for (const auto& part : self.dataset->parts())
    list.append(nb::make_tuple(path_text(part.folder), part.begin, part.end));
  return list;
}

/// NumPy, H x W x C, which owns the pixels.
nb::object array_of(std::vector<uint8_t> pixels, const Extent& extent, PixelType type = PixelType::kU8) {
  auto owned = std::make_unique<std::vector<uint8_t>>(std::move(pixels));
  const std::array shape{static_cast<size_t>(extent.height), static_cast<size_t>(extent.width),
                         static_cast<size_t>(extent.channels)};
  uint8_t* const data = owned->data();
  const nb::capsule owner(owned.release(),
                          [](void* memory) noexcept { delete static_cast<std::vector<uint8_t>*>(memory); });
  const auto dtype = type == PixelType::kU8    ? nb::dtype<uint8_t>()
                     : type == PixelType::kU16 ? nb::dtype<uint16_t>()
                                               : nb::dtype<float>();
  return nb::cast(nb::ndarray<nb::numpy, nb::device::cpu>(data, shape.size(), shape.data(), owner, nullptr, dtype));
}

/// Sample `index` as (pixels, label, id, path, encoding). The path is bytes, because names of files may be any.
nb::tuple sample(const OpenDataset& self, uint64_t index) {
  const Dataset& dataset = *self.dataset;
  DecodedPicture picture;
  Sample found;
  {
    const Unlocked released;                   // a far shard may have to be fetched
    picture = decode_picture(dataset, index);  // first, because it notices a shard that is cut short
    found = dataset.at(index);
  }
  return nb::make_tuple(array_of(std::move(picture.pixels), picture.extent, picture.type), found.label, found.id,
                        nb::bytes(found.path.data(), found.path.size()), codec_traits(found.encoding).name);
}

/// A sheet as (pixels, PNG, labels, ids). `sample`: this one in all cells.
nb::tuple sheet(const OpenDataset& self, const std::string& augment, int rows, int columns, uint64_t seed,
                int64_t epoch, const std::string& shuffle, std::optional<uint64_t> sample) {
  Sheet made;
  std::vector<uint8_t> png;
  {
    const Unlocked released;
    const SheetOptions options{.rows = rows,
                               .columns = columns,
                               .seed = seed,
                               .epoch = epoch,
                               .shuffle = parse_shuffle("shuffle", shuffle),
                               .sample = sample};
    made = make_sheet(self.dataset, Pipeline(augment, self.dataset->manifest().statistics), options);
    png = made.png();
  }
  return nb::make_tuple(array_of(std::move(made.pixels), made.extent), nb::bytes(png.data(), png.size()), made.labels,
                        made.ids);
}

}  // namespace

void define_dataset(nb::module_& module) {
  nb::class_<OpenDataset>(module, "Dataset")
      .def(
          "__init__",
          [](OpenDataset* self, const std::filesystem::path& data, const std::vector<std::filesystem::path>& also,
             const std::string& split) {
            std::vector<std::shared_ptr<const Dataset>> all{Dataset::open(data, split)};
            for (const auto& other : also) all.push_back(Dataset::open(other, split));
            new (self) OpenDataset{Dataset::join(all)};
          },
          "data"_a, "also"_a, "split"_a, Release())
      .def("sample", sample, "index"_a)
      .def("ids_and_labels", ids_and_labels)
      .def("paths", paths)
      .def("field_values", field_values, "number"_a, "indices"_a)
      .def("statistics", statistics_tuple)
      .def_prop_ro("parts", part_tuples)
      .def(
          "field",
          [](const OpenDataset& self, uint64_t index, size_t number) {
            HeldField field;
            {
              const Unlocked released;  // as above
              field = self.dataset->field(index, number);
            }
            return nb::bytes(field.bytes.data(), field.bytes.size());
          },
          "index"_a, "number"_a)
      .def_prop_ro("fields", [](const OpenDataset& self) { return field_tuples(self.dataset->manifest().fields); })
      .def_prop_ro("size", [](const OpenDataset& self) { return self.dataset->size(); })
      .def_prop_ro("folder", [](const OpenDataset& self) { return path_text(self.dataset->folder()); })
      .def_prop_ro("split", [](const OpenDataset& self) { return self.dataset->manifest().split; })
      .def_prop_ro("class_names", [](const OpenDataset& self) { return self.dataset->manifest().class_names; })
      .def_prop_ro("class_counts", [](const OpenDataset& self) { return self.dataset->manifest().class_counts; });
  module.def("sheet", sheet, "data"_a, "augment"_a, "rows"_a, "columns"_a, "seed"_a, "epoch"_a, "shuffle"_a,
             "sample"_a.none());
}

}  // namespace penstock::python
