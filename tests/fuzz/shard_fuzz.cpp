// A shard from an untrusted source: the safetensors header, the columns, and each small sample, read as a loader reads
// it.
#include "loader/files/safetensors.h"
#include "loader/jpeg/store/coefficient_sample.h"
#include "loader/shards/shard.h"
#include "tests/fuzz/fuzz_pictures.h"

namespace penstock {
namespace {

/// `shard` with a correct checksum of its codebook: an attacker would write one.
std::vector<uint8_t> with_codebook_checksum(std::span<const uint8_t> shard) {
  std::vector<uint8_t> bytes(shard.begin(), shard.end());
  const fuzzing::MemoryFile file(shard);
  const Safetensors tensors(file.path());
  if (const auto* codebook = tensors.find("codebook"))
    fuzzing::fix_codebook_checksum(std::span(bytes).subspan(codebook->byte_offset, codebook->bytes.size()));
  return bytes;
}

void use(const Sample& sample) {
  fuzzing::decode(sample, DecodePath::kAuto);
  if (sample.encoding == Encoding::kCoefficients && sample.extent.height < 256 && sample.extent.width < 256)
    detail::rebuild_jpeg(detail::CoefficientSample::parse(sample.bytes), *sample.codebook);
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  try {
    const fuzzing::MemoryFile file(with_codebook_checksum({data, size}));
    const ShardReader shard(file.path());
    for (size_t row = 0; row < shard.size() && row < 8; ++row) {
      try {
        use(shard.at(row));
        shard.check_crc(row);
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
  return 0;
}
