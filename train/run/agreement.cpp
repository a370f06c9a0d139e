// Agreement: the values of the flag table, with checksums of contents in place of paths.
#include "train/run/agreement.h"

#include <torch/version.h>

#include <fstream>
#include <iterator>
#include <map>

#include "core/number_text.h"
#include "core/text.h"
#include "loader/shards/shard.h"
#include "train/nn/model.h"
#include "train/options/flag_table.h"
#include "train/parallel/strategy/strategy.h"
#include "train/run/exact.h"
#include "train/run/source_id.h"
#include "train/tensor/tensor_file.h"

namespace penstock {
namespace {

uint32_t checksum(const void* bytes, size_t count, uint32_t before) {
  return crc32c({static_cast<const uint8_t*>(bytes), count}, before);
}

uint32_t checksum(const std::string& text, uint32_t before) {
  return checksum(text.c_str(), text.size() + 1, before);  // with the final 0, so that "a", "bc" differs from "ab", "c"
}

std::string hex(uint32_t value) { return printed("%08x", value); }

uint32_t checksum(const std::string& name, const torch::Tensor& tensor, uint32_t before) {
  const auto bytes = tensor.detach().cpu().contiguous();
  return checksum(bytes.data_ptr(), bytes.nbytes(), checksum(name, before));
}

std::string identity_of(const Checkpoint& checkpoint) {
  uint32_t sum = 0;
  for (const auto& [name, tensor] : checkpoint.state) sum = checksum(name, tensor, sum);
  const Position& at = checkpoint.info.position;
  return concat("a checkpoint of epoch ", at.epoch + 1, ", step ", at.batch, " of it, with checksum ", hex(sum));
}

std::string identity_of(const std::vector<std::string>& plugins) {
  uint32_t sum = 0;
  for (const auto& path : plugins) {
    std::ifstream file(path, std::ios::binary);
    sum = checksum(std::string(std::istreambuf_iterator<char>(file), {}), sum);
  }
  return concat(count_text(plugins.size(), "plug-in"), " with checksum ", hex(sum));
}

/// For flags whose text may differ between ranks: what must be equal in its place.
std::map<std::string, std::string> contents_of(const Setup& setup) {
  std::map<std::string, std::string> contents{{"data", identity_of(setup.data.train->manifest())},
                                              {"also", count_text(setup.options.also.size(), "data set")},
                                              {"augment", setup.data.augment},
                                              {"eval-augment", setup.data.eval_augment}};
  const auto& mode = StrategyRegistry::entry(setup.options.mode->name());
  if (mode.traits.identity)
    if (const auto text = mode.traits.identity(setup.options.mode->with_keys(mode.keys)); !text.empty())
      contents["mode"] = text;
  if (setup.options.exact_shards > 0) contents["exact-kernels"] = kernels_text(setup.options);
  if (!setup.pretrained.empty()) contents["pretrained"] = setup.pretrained;
  if (!setup.options.plugins.empty()) contents["plugin"] = identity_of(setup.options.plugins);
  if (setup.checkpoint) contents["resume"] = identity_of(*setup.checkpoint);
  return contents;
}

}  // namespace

std::string identity_of_weights(const std::filesystem::path& path) {
  const auto file = read_tensors(path);
  uint32_t sum = 0;
  for (const auto& [name, tensor] : file.tensors) sum = checksum(name, tensor, sum);
  file.check_read();
  return concat("weights with checksum ", hex(sum));
}

RunFingerprint fingerprint_of(const Setup& setup) {
  RunFingerprint fingerprint{
      {"the program", concat("penstock ", kVersion, " of sources ", kSourceId, " with LibTorch ", TORCH_VERSION)}};
  const auto contents = contents_of(setup);
  for (const Flag& flag : flag_table()) {
    if (!flag.uses.is_agreed) continue;
    const auto content = contents.find(flag.name);
    const std::string value = content == contents.end() ? text_of(flag.value(setup.options)) : content->second;
    fingerprint.push_back({"--" + flag.name, value.empty() ? "not given" : value});
  }
  fingerprint.push_back({"the selection of samples", setup.selection.empty() ? "none" : setup.selection});
  fingerprint.push_back({"the test split", setup.data.test ? identity_of(setup.data.test->manifest()) : "not there"});
  return fingerprint;
}

}  // namespace penstock
