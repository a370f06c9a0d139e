// Codebook files: their bytes are those of the tensor "codebook" of a shard, or none.
#include "loader/pack/codebook_file.h"

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/regular_file.h"
#include "core/text.h"
#include "loader/jpeg/store/codebook.h"
#include "loader/pack/encoder.h"
#include "loader/pack/part.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const detail::Codebook* codebook) {
  AtomicFile file(path);
  if (codebook != nullptr) file.write(codebook->bytes());
  file.commit();
}

}  // namespace

void write_codebook(const Source& source, const StorageOptions& storage, int jobs, const fs::path& path) {
  detail::check_codebook_is_used(storage, path);
  write(path, detail::codebook_for(source, storage, jobs).get());
}

namespace detail {

std::shared_ptr<const Codebook> read_codebook(const fs::path& path) {
  const auto bytes = read_file(path, Codebook::kByteCount);
  if (bytes.empty()) return nullptr;
  try {
    return std::make_shared<const Codebook>(Codebook::parse(bytes));
  } catch (const Error& error) {
    throw Error(error.kind(), concat(path.string(), ": ", error.what()));
  }
}

std::shared_ptr<const Codebook> codebook_of(const Source& source, const PackOptions& options, const std::string& key) {
  if (!options.codebook.empty()) return read_codebook(options.codebook);
  if (!options.part || options.part->has_own_rows()) return codebook_for(source, options.storage, options.jobs);
  const auto shared = parts_folder(options.output, options.split) / ("codebook-" + key);
  try {
    if (fs::exists(shared)) return read_codebook(shared);
  } catch (const Error&) {  // it is made again, from the same pictures
  }
  auto codebook = codebook_for(source, options.storage, options.jobs);
  write(shared, codebook.get());
  return codebook;
}

}  // namespace detail
}  // namespace penstock
