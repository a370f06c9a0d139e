// penstock._native.Loader and Batch: options by their names, batches as arrays without a copy, statistics as a dict.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "augment/size_schedule.h"
#include "core/choice.h"
#include "loader/batch/option_names.h"
#include "loader/shards/pipeline_of.h"
#include "python/src/module.h"
#include "python/src/native_loader.h"

namespace penstock::python {
namespace {

using nanobind::literals::operator""_a;

/// Which library's arrays Python gets.
enum class Arrays { kTorch, kNumpy, kDlpack };

/// `owner` is the Python object that keeps the memory alive. An array holds a reference to it.
nb::object array(Arrays arrays, void* data, std::span<const size_t> shape, std::span<const int64_t> strides,
                 nb::dlpack::dtype dtype, nb::handle owner) {
  const auto as = [&](auto framework) {
    using Array = nb::ndarray<decltype(framework), nb::device::cpu>;
    return nb::cast(Array(data, shape.size(), shape.data(), owner, strides.empty() ? nullptr : strides.data(), dtype));
  };
  switch (arrays) {
    case Arrays::kTorch:
      return as(nb::pytorch());
    case Arrays::kNumpy:
      return as(nb::numpy());
    case Arrays::kDlpack:
      break;
  }
  return as(nb::array_api());
}

nb::dlpack::dtype dlpack_dtype(Dtype dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto code = [dtype] {
    switch (dtype) {
      case Dtype::kU8:
      case Dtype::kU16:
      case Dtype::kU32:
        return Code::UInt;
      case Dtype::kBool:
        return Code::Bool;
      case Dtype::kBf16:
        return Code::Bfloat;
      case Dtype::kF16:
      case Dtype::kF32:
      case Dtype::kF64:
        return Code::Float;
      case Dtype::kI8:
      case Dtype::kI16:
      case Dtype::kI32:
      case Dtype::kI64:
      case Dtype::kU64:  // ids are below 2^63 in every row that has a sample, and many libraries know no u64
        break;
    }
    return Code::Int;
  };
  return {static_cast<uint8_t>(code()), static_cast<uint8_t>(8 * element_bytes(dtype)), 1};
}

/// The rows of column `number` that have a sample. Torch always gets pictures as N x C x H x W, whose strides say how
/// they are stored, as torch.channels_last does. Others get the dimensions in the order in which they are stored.
nb::object column(const nb::object& self, size_t number, Arrays arrays) {
  auto& batch = nb::cast<Batch&>(self);
  const Column& column = batch.columns()[number];
  std::vector<size_t> shape{static_cast<size_t>(batch.count())};
  for (const int64_t size : column.shape) shape.push_back(static_cast<size_t>(size));
  std::vector<int64_t> strides;
  if (batch.is_picture(number) && arrays == Arrays::kTorch && !is_planar(batch.layout())) {
    const int64_t height = column.shape[0], width = column.shape[1], channels = column.shape[2];
    shape = {shape[0], shape[3], shape[1], shape[2]};
    strides = {height * width * channels, 1, width * channels, channels};
  }
  return array(arrays, batch.column(number).data(), shape, strides, dlpack_dtype(column.dtype), self);
}

/// int64, one per row that has a sample.
nb::object indices(const nb::object& self, Arrays arrays) {
  auto& batch = nb::cast<Batch&>(self);
  const std::array shape{static_cast<size_t>(batch.count())};
  return array(arrays, batch.indices().data(), shape, {}, dlpack_dtype(Dtype::kU64), self);
}

nb::list column_names(const Batch& batch) {
  nb::list names;
  for (const auto& column : batch.columns()) names.append(column.name);
  return names;
}

/// The batch as (images, labels, batch).
nb::tuple as_tuple(Batch&& batch, Arrays arrays) {
  const nb::object self = nb::cast(std::move(batch));
  return nb::make_tuple(column(self, Column::kImages, arrays), column(self, Column::kLabels, arrays), self);
}

nb::object next(NativeLoader& loader, Arrays arrays) {
  std::optional<Batch> batch;
  {
    const Unlocked released;
    batch = loader.next();
  }
  if (!batch) return nb::none();
  return as_tuple(std::move(*batch), arrays);
}

nb::object batch_at(NativeLoader& loader, int64_t epoch, int64_t index, Arrays arrays) {
  std::optional<Batch> batch;
  {
    const Unlocked released;
    batch = loader.batch(epoch, index);
  }
  return as_tuple(std::move(*batch), arrays);
}

nb::dict stage_dict(const LoaderStatistics::StageTime& stage) {
  nb::dict dict;
  dict["count"] = stage.count;
  dict["mean_us"] = stage.mean_us();
  dict["p99_us"] = stage.p99_us;
  dict["total_ms"] = stage.total_ms;
  return dict;
}

nb::dict worker_dict(const LoaderStatistics::Worker& worker) {
  nb::dict dict;
  dict["busy_ms"] = worker.busy_ms;
  dict["idle_ms"] = worker.idle_ms;
  dict["cpu_ms"] = worker.cpu_ms;
  dict["queued_ms"] = worker.queued_ms;
  dict["storage_ms"] = worker.storage_ms;
  dict["storage_bytes"] = worker.storage_bytes;
  return dict;
}

nb::dict link_dict(const LinkStats& link) {
  nb::dict dict, retries, origins;
  for (const auto& [kind, count] : link.retries) retries[kind.c_str()] = count;
  for (const auto& [origin, bytes] : link.origin_bytes) origins[origin.c_str()] = bytes;
  dict["is_emulated"] = link.is_emulated;
  dict["fetched_bytes"] = link.fetched_bytes;
  dict["over_bytes"] = link.over_bytes();
  dict["bytes_per_second"] = link.rate();
  dict["hit_count"] = link.hit_count;
  dict["hit_bytes"] = link.hit_bytes;
  dict["miss_count"] = link.miss_count;
  dict["miss_bytes"] = link.miss_bytes;
  dict["ahead_count"] = link.ahead_count;
  dict["ahead_bytes"] = link.ahead_bytes;
  dict["eviction_count"] = link.eviction_count;
  dict["request_count"] = link.request_count;
  dict["stall_count"] = link.stall_count;
  dict["stall_ms"] = link.stall_ms;
  dict["transfer_ms"] = link.transfer_ms;
  dict["retries"] = retries;
  dict["origin_bytes"] = origins;
  return dict;
}

nb::dict statistics(NativeLoader& loader) {
  LoaderStatistics found;
  {
    const Unlocked released;
    found = loader.statistics();
  }
  nb::dict stages, dict;
  stages["read"] = stage_dict(found.read);
  stages["plan"] = stage_dict(found.plan);
  stages["decode"] = stage_dict(found.decode);
  stages["render"] = stage_dict(found.render);
  stages["storage"] = stage_dict(found.storage());
  stages["wait"] = stage_dict(found.wait);
  nb::list workers;
  for (const auto& worker : found.workers) workers.append(worker_dict(worker));
  dict["batch_count"] = found.batch_count;
  dict["ready_count"] = found.ready_count;
  dict["masked_count"] = found.masked_count;
  dict["substituted_count"] = found.substituted_count;
  dict["sample_bytes"] = found.sample_bytes;
  dict["stages"] = stages;
  dict["workers"] = workers;
  dict["link"] = link_dict(found.link);
  return dict;
}

/// Memory that cudaHostAlloc and cudaFreeHost give, whose addresses these are: page-locked, so that a device can copy
/// from it while the host goes on. 0: memory of the heap. They are called without the GIL, on any thread.
SlotAllocator page_locked(uintptr_t allocate, uintptr_t release) {
  if (allocate == 0) return {};
  constexpr unsigned kPortable = 1;  // cudaHostAllocPortable: for all devices
  const auto host_alloc = reinterpret_cast<int (*)(void**, size_t, unsigned)>(allocate);
  const auto free_host = reinterpret_cast<int (*)(void*)>(release);
  return {[host_alloc](size_t byte_count) -> void* {
            void* memory = nullptr;
            return host_alloc(&memory, byte_count, kPortable) == 0 ? memory : nullptr;
          },
          [free_host](void* memory, size_t) { free_host(memory); }};
}

/// A number for each sample, which are copied.
using Weights = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::shared_ptr<const std::vector<double>> copied(const std::optional<Weights>& weights) {
  if (!weights) return nullptr;
  return std::make_shared<const std::vector<double>>(weights->data(), weights->data() + weights->shape(0));
}

struct Names {
  std::string layout, shuffle, tail, on_corrupt, decode, dct_scale, read_ahead;
};

LoaderOptions with_names(LoaderOptions options, const Names& names) {
  options.layout = choice("layout", names.layout, layout_names());
  options.shuffle = parse_shuffle("shuffle", names.shuffle);
  options.tail = choice("tail", names.tail, tail_names());
  options.on_corrupt = choice("on_corrupt", names.on_corrupt, on_corrupt_names());
  options.decode = choice("decode", names.decode, decode_names());
  options.dct_scale = choice("dct_scale", names.dct_scale, dct_scale_names());
  options.read_ahead = choice("read_ahead", names.read_ahead, read_ahead_names());
  return options;
}

/// For each view what its levels are multiplied by, and what is added then.
nb::list normalizations(const NativeLoader& loader) {
  const auto channels = static_cast<size_t>(loader.extent().channels);
  nb::list all;
  for (const auto& pipeline : loader.pipelines()) {
    const auto& [scale, bias] = pipeline.normalization();
    all.append(nb::make_tuple(std::vector(scale.begin(), scale.begin() + channels),
                              std::vector(bias.begin(), bias.begin() + channels)));
  }
  return all;
}

template <class Value>
nb::tuple words(const std::map<std::string, Value>& names) {
  nb::list list;
  for (const auto& [word, value] : names) list.append(word);
  return nb::tuple(list);
}

/// The words that options take, by the option's name.
nb::dict choices() {
  nb::dict dict;
  dict["layout"] = words(layout_names());
  dict["shuffle"] = words(shuffle_names());
  dict["tail"] = words(tail_names());
  dict["on_corrupt"] = words(on_corrupt_names());
  dict["decode"] = words(decode_names());
  dict["dct_scale"] = words(dct_scale_names());
  dict["read_ahead"] = words(read_ahead_names());
  return dict;
}

void define_batch(nb::module_& module) {
  nb::class_<Batch>(module, "Batch")
      .def_prop_ro("epoch", &Batch::epoch)
      .def_prop_ro("index", &Batch::index)
      .def_prop_ro("count", &Batch::count)
      .def_prop_ro("global_count", &Batch::global_count)
      .def_prop_ro("corrupt_count", &Batch::corrupt_count)
      .def_prop_ro("first_position", &Batch::first_position)
      .def_prop_ro("column_names", column_names)
      .def("indices", indices, "arrays"_a)
      .def("column", [](const nb::object& self, size_t number, Arrays arrays) { return column(self, number, arrays); });
}

}  // namespace

void define_loader(nb::module_& module) {
  nb::enum_<Arrays>(module, "Arrays")
      .value("torch", Arrays::kTorch)
      .value("numpy", Arrays::kNumpy)
      .value("dlpack", Arrays::kDlpack);
  module.attr("choices") = choices();
  module.def(
      "shuffle_text", [](const std::string& text) { return parse_shuffle("shuffle", text).text(); }, "text"_a);
  define_batch(module);
  nb::class_<NativeLoader>(module, "Loader", nb::is_weak_referenceable())
      .def(
          "__init__",
          [](NativeLoader* self, const std::filesystem::path& data, const std::vector<std::filesystem::path>& also,
             const std::string& split, const std::string& augment, int workers, int prefetch, int64_t batch_size,
             int rank, int world_size, uint64_t seed, int64_t epoch_count, const std::string& layout,
             const std::string& shuffle, const std::string& tail, const std::string& on_corrupt,
             const std::string& decode, const std::string& dct_scale, const std::string& read_ahead,
             const std::vector<std::string>& views, const std::string& size_schedule, const std::string& columns,
             const std::string& subset, const std::string& exclude_ids, const std::string& sampler,
             const std::optional<Weights>& weights, const std::filesystem::path& quarantine, uintptr_t allocate,
             uintptr_t release) {
            const LoaderOptions options{.workers = workers,
                                        .prefetch = prefetch,
                                        .batch_size = batch_size,
                                        .rank = rank,
                                        .world_size = world_size,
                                        .subset = subset,
                                        .exclude_ids = exclude_ids,
                                        .sampler = sampler,
                                        .weights = copied(weights),
                                        .seed = seed,
                                        .epoch_count = epoch_count,
                                        .quarantine = quarantine,
                                        .views = views,
                                        .size_schedule = SizeSchedule("loader: size_schedule", size_schedule).text(),
                                        .columns = columns,
                                        .allocator = page_locked(allocate, release),
                                        .on_wait = check_signals};
            std::vector<std::filesystem::path> all{data};
            all.insert(all.end(), also.begin(), also.end());
            new (self)
                NativeLoader(all, split, augment,
                             with_names(options, {layout, shuffle, tail, on_corrupt, decode, dct_scale, read_ahead}));
          },
          nb::kw_only(), "data"_a, "also"_a, "split"_a, "augment"_a, "workers"_a, "prefetch"_a, "batch_size"_a,
          "rank"_a, "world_size"_a, "seed"_a, "epoch_count"_a, "layout"_a, "shuffle"_a, "tail"_a, "on_corrupt"_a,
          "decode"_a, "dct_scale"_a, "read_ahead"_a, "views"_a, "size_schedule"_a, "columns"_a, "subset"_a,
          "exclude_ids"_a, "sampler"_a, "weights"_a.none(), "quarantine"_a, "allocate"_a, "release"_a, Release())
      .def("start_epoch", &NativeLoader::start_epoch, "epoch"_a, "first_batch"_a, Release())
      .def("next", next, "arrays"_a)
      .def("batch", batch_at, "epoch"_a, "index"_a, "arrays"_a)
      .def("digest", &NativeLoader::digest, "epoch"_a, Release())
      .def("statistics", statistics)
      .def("close", &NativeLoader::close, Release())
      .def_prop_ro("memory_bytes", &NativeLoader::memory_bytes, Release())
      .def_prop_ro("batches_per_epoch", &NativeLoader::batches_per_epoch)
      .def_prop_ro("samples_per_epoch", &NativeLoader::samples_per_epoch)
      .def_prop_ro("rows", &NativeLoader::rows)
      .def_prop_ro("selection", &NativeLoader::selection)
      .def_prop_ro("selection_text", &NativeLoader::selection_text)
      .def_prop_ro("size", [](const NativeLoader& self) { return self.dataset().size(); })
      .def_prop_ro("warnings", &NativeLoader::warnings)
      .def_prop_ro("subset", [](const NativeLoader& self) { return bytes_of(self.subset()); })
      .def_prop_ro("identity", [](const NativeLoader& self) { return identity_of(self.dataset().manifest()); })
      .def_prop_ro("normalize_split",
                   [](const NativeLoader& self) { return normalize_statistics(self.dataset()).split; })
      .def_prop_ro("folder", [](const NativeLoader& self) { return path_text(self.dataset().folder()); })
      .def_prop_ro("class_names", [](const NativeLoader& self) { return self.dataset().manifest().class_names; })
      .def_prop_ro("augment", [](const NativeLoader& self) { return self.pipeline().text(); })
      .def_prop_ro("has_normalize",
                   [](const NativeLoader& self) {
                     const auto& views = self.pipelines();
                     return std::any_of(views.begin(), views.end(), [](const auto& of) { return of.has_normalize(); });
                   })
      .def_prop_ro("normalizations", normalizations)
      .def_prop_ro("layout", [](const NativeLoader& self) { return layout_name(self.options().layout); })
      .def_prop_ro("extent", [](const NativeLoader& self) {
        return nb::make_tuple(self.extent().height, self.extent().width, self.extent().channels);
      });
}

}  // namespace penstock::python
