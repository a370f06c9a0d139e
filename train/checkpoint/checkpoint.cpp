// Checkpoints: writing tensors and JSON into a safetensors file, and reading them.
#include "train/checkpoint/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_text.h"
#include "core/strict_json.h"
#include "core/text.h"

namespace penstock {
namespace {

constexpr const char* kKey = "penstock";
constexpr int kMostDepth = 8;  // of its JSON
constexpr const char* kModelPrefix = "model.";
constexpr const char* kAveragePrefix = "average.";

nlohmann::json to_json(const PlateauState& state) {
  return {{"factor", state.factor},
          {"best", state.best ? nlohmann::json(*state.best) : nlohmann::json()},
          {"bad_epochs", state.bad_epochs},
          {"cooldown", state.cooldown}};
}

/// The value of a key that every checkpoint has.
template <class Value>
void take(const nlohmann::json& json, const char* key, Value& value) {
  const auto found = json.find(key);
  if (found == json.end())
    throw corrupt_error(concat("no key ", in_quotes(key), "; expected what --save-every writes"));
  try {
    found->get_to(value);
  } catch (const nlohmann::json::exception& error) {
    throw corrupt_error(concat(key, " is ", shortened(json_text(*found)), ", and its ", json_problem(error.what())));
  }
}

PlateauState plateau_from(const nlohmann::json& json) {
  PlateauState state;
  take(json, "factor", state.factor);
  if (!json.at("best").is_null()) state.best = json.at("best").get<double>();
  take(json, "bad_epochs", state.bad_epochs);
  take(json, "cooldown", state.cooldown);
  if (!(state.factor >= 0 && state.factor <= 1) || state.bad_epochs < 0 || state.cooldown < 0)
    throw corrupt_error(
        concat("plateau is ", json_text(json), "; expected a factor of 0 to 1, and epochs of 0 or more"));
  return state;
}

nlohmann::json to_json(const GradientScale& scale) {
  return {{"scale", scale.scale}, {"good_steps", scale.good_steps}, {"skipped_steps", scale.skipped_steps}};
}

GradientScale scale_from(const nlohmann::json& json) {
  const GradientScale scale{json.at("scale").get<double>(), json.at("good_steps").get<int64_t>(),
                            json.at("skipped_steps").get<int64_t>()};
  if (!(scale.scale >= 1) || scale.good_steps < 0 || scale.skipped_steps < 0)
    throw corrupt_error(
        concat("gradient_scale is ", json_text(json), "; expected a scale of 1 or more, and steps of 0 or more"));
  return scale;
}

/// What every checkpoint has, by its key.
template <class Info, class Use>
void each_key(Info& info, const Use& use) {
  auto& position = info.position;
  use("arch", info.arch);
  use("channels", info.shape.channels);
  use("height", info.shape.height);
  use("width", info.shape.width);
  use("classes", info.shape.classes);
  use("epoch", position.epoch);
  use("batch", position.batch);
  use("step", position.step);
  use("loss_sum", position.loss_sum);
  use("correct_count", position.correct_count);
  use("sample_count", position.sample_count);
  use("seed", info.seed);
  use("batch_size", info.batch_size);
  use("shuffle", info.shuffle);
  use("tail", info.tail);
  use("dataset_size", info.dataset_size);
  use("world_size", info.world_size);
  use("threads", info.threads);
  use("augment", info.augment);
}

nlohmann::json to_json(const CheckpointInfo& info) {
  const auto& position = info.position;
  nlohmann::json json{{"format_version", CheckpointInfo::kFormatVersion}};
  each_key(info, [&](const char* key, const auto& value) { json[key] = value; });
  json["best_accuracy"] = position.best_accuracy ? nlohmann::json(*position.best_accuracy) : nlohmann::json();
  // Checkpoints of earlier versions lack the key, and those of sgd have not changed by a byte.
  if (info.optimizer != CheckpointInfo().optimizer) json["optimizer"] = info.optimizer;
  if (!info.average.empty()) json["average"] = info.average;
  if (position.plateau) json["plateau"] = to_json(*position.plateau);
  if (position.scale) json["gradient_scale"] = to_json(*position.scale);
  if (!info.data.empty()) json["data"] = info.data;
  if (!info.selection.empty()) json["selection"] = info.selection;
  return json;
}

CheckpointInfo info_from(const nlohmann::json& json) {
  CheckpointInfo info;
  auto& position = info.position;
  each_key(info, [&](const char* key, auto& value) { take(json, key, value); });
  if (!json.at("best_accuracy").is_null()) position.best_accuracy = json.at("best_accuracy").get<double>();
  info.optimizer = json.value("optimizer", info.optimizer);
  info.average = json.value("average", info.average);
  if (json.contains("plateau")) position.plateau = plateau_from(json.at("plateau"));
  if (json.contains("gradient_scale")) position.scale = scale_from(json.at("gradient_scale"));
  info.data = json.value("data", info.data);
  info.selection = json.value("selection", info.selection);
  if (position.epoch < 0 || position.batch < 0 || position.step < 0)
    throw corrupt_error(concat("epoch, batch and step are ", position.epoch, ", ", position.batch, " and ",
                               position.step, "; expected 0 or more"));
  return info;
}

std::string shape_text(const ModelShape& shape) {
  return concat(shape.classes, " classes of ", shape.channels, " x ", shape.height, " x ", shape.width);
}

/// What the metadata of a checkpoint say.
CheckpointInfo info_in(const std::filesystem::path& path, const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find(kKey);
  if (found == metadata.end()) {
    throw corrupt_error(concat(path.string(), ": no ", in_quotes(kKey),
                               " in its metadata, so it is no checkpoint; expected a file that ",
                               "--save-every wrote (weights alone go to --pretrained)"));
  }
  try {
    detail::check_json_depth(found->second, "checkpoint metadata", kMostDepth);
    const auto json = nlohmann::json::parse(found->second);
    const int version = json.at("format_version").get<int>();
    if (version != CheckpointInfo::kFormatVersion)
      throw corrupt_error(concat("format version is ", version, "; expected ", CheckpointInfo::kFormatVersion));
    return info_from(json);
  } catch (const std::exception& error) {
    throw corrupt_error(concat(path.string(), ": checkpoint metadata: ", json_problem(error.what())));
  }
}

/// What the names of those tensors begin with that a model file holds: the average if there is one.
const char* weights_prefix(const NamedTensors& sizes) {
  const bool has = std::any_of(sizes.begin(), sizes.end(),
                               [](const auto& entry) { return entry.first.starts_with(kAveragePrefix); });
  return has ? kAveragePrefix : kModelPrefix;
}

/// Those with this prefix.
NamedTensors without_prefix(const NamedTensors& sizes, const std::string& prefix) {
  NamedTensors some;
  for (const auto& [name, tensor] : sizes)
    if (name.starts_with(prefix)) some.emplace_back(name.substr(prefix.size()), tensor);
  return some;
}

}  // namespace

StateFile::StateFile(const std::filesystem::path& path, const NamedTensors& sizes, const CheckpointInfo& info)
    : file_(path, sizes, {{kKey, json_text(to_json(info))}}) {}

StateFile::StateFile(const std::filesystem::path& path, const NamedTensors& sizes, const std::string& arch, Which which)
    : prefix_(which == Which::kWeights ? kModelPrefix : weights_prefix(sizes)),
      file_(path, without_prefix(sizes, prefix_), {{"arch", arch}}) {}

void StateFile::put(const std::string& name, const torch::Tensor& tensor) {
  if (name.starts_with(prefix_)) file_.put(name.substr(prefix_.size()), tensor);
}

bool has_average(const StateDict& state) {
  const auto next = state.lower_bound(kAveragePrefix);
  return next != state.end() && next->first.starts_with(kAveragePrefix);
}

void check_same_average(const std::filesystem::path& path, const Checkpoint& checkpoint, const CheckpointInfo& now) {
  const std::string& then = checkpoint.info.average;
  if (has_average(checkpoint.state) == now.average.empty())
    throw config_error(concat("--resume ", path.string(),
                              now.average.empty()
                                  ? ": a checkpoint with an average of the weights; expected --average, as "
                                  : ": a checkpoint without an average of the weights; expected no --average, as ",
                              "in the run that wrote it"));
  if (!then.empty() && then != now.average)
    throw config_error(concat("--resume ", path.string(), ": a checkpoint of average ", then, "; expected ",
                              now.average, ", as --average is"));
}

Checkpoint load_checkpoint(const std::filesystem::path& path) {
  auto [tensors, metadata, file] = read_tensors(path);
  return {info_in(path, metadata), std::move(tensors), std::move(file)};
}

CheckpointInfo load_checkpoint_info(const std::filesystem::path& path) {
  const Safetensors file(path);
  return info_in(path, file.metadata());
}

void check_same_model(const std::filesystem::path& path, const CheckpointInfo& info, const std::string& arch,
                      const ModelShape& shape) {
  if (info.arch != arch) {
    throw config_error(concat("--resume ", path.string(), ": a checkpoint of arch ", info.arch, "; expected ", arch,
                              ", as --arch is"));
  }
  if (shape_text(info.shape) != shape_text(shape)) {
    throw config_error(concat("--resume ", path.string(), ": a checkpoint for ", shape_text(info.shape), "; expected ",
                              shape_text(shape), ", as the data are"));
  }
}

void check_same_optimizer(const std::filesystem::path& path, const CheckpointInfo& info, const CheckpointInfo& now) {
  if (info.optimizer == now.optimizer) return;
  throw config_error(concat("--resume ", path.string(), ": a checkpoint of optimizer ", info.optimizer, "; expected ",
                            now.optimizer, ", as --optimizer is"));
}

void check_same_data(const std::filesystem::path& path, const CheckpointInfo& info, const CheckpointInfo& now) {
  if (info.data.empty() || info.data == now.data) return;
  throw config_error(concat("--resume ", path.string(), ": a checkpoint of a run on ", info.data, ", and --data has ",
                            now.data, "; expected the data of that run, or --pretrained with its ",
                            "model.safetensors, which begins a run on other data"));
}

void check_same_order(const std::filesystem::path& path, const CheckpointInfo& info, const CheckpointInfo& now) {
  if (info.position.batch == 0) return;
  const auto check = [&](const char* what, const auto& then, const auto& value) {
    if (then == value) return;
    throw config_error(concat("--resume ", path.string(), ": was saved at step ", info.position.batch,
                              " of an epoch with ", what, " ", then, ", which is now ", value,
                              "; expected the same, or a checkpoint from the end of an epoch"));
  };
  check("--seed", info.seed, now.seed);
  check("--batch-size", info.batch_size, now.batch_size);
  check("--shuffle", info.shuffle, now.shuffle);
  check("--tail", info.tail, now.tail);
  check("a data set of size", info.dataset_size, now.dataset_size);
  const auto selection_of = [](const CheckpointInfo& of) { return of.selection.empty() ? "none" : of.selection; };
  check("the selection of samples", selection_of(info), selection_of(now));
  if (now.shuffle == "rank-local") check("a world size of", info.world_size, now.world_size);
}

}  // namespace penstock
