// SplitUpload: a folder to work in, and what is sent from it in which order.
#include "loader/shards/split_upload.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/atomic_file.h"
#include "core/bytes.h"
#include "core/error.h"
#include "core/regular_file.h"
#include "core/text.h"
#include "loader/files/checksum.h"
#include "loader/files/files.h"
#include "loader/files/interrupt.h"

namespace penstock::detail {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReplaced = "replaced.txt";

std::string hash_of_text(const std::string& text) { return xxh3_hex(as_bytes(text)); }

/// Everybody may write to the folder of temporary files, so that somebody else may have made this one.
void make_own_folder(const fs::path& folder) {
  struct stat status {};
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) throw errno_error(folder.string(), "expected to work in it");
  if (lstat(folder.c_str(), &status) != 0) throw errno_error(folder.string(), "expected to work in it");
  if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid())
    throw config_error(concat(folder.string(), ": is no folder of this user's; expected another TMPDIR"));
}

}  // namespace

SplitUpload::SplitUpload(fs::path folder, bool replaces)
    : folder_(std::move(folder)),
      staging_(fs::temp_directory_path() / concat("penstock-pack-", hash_of_text(folder_.string()))),
      replaces_(replaces) {
  make_own_folder(staging_);
}

SplitUpload::~SplitUpload() {
  std::error_code ignored;  // it is not empty where another packing works in it
  fs::remove(staging_, ignored);
}

bool SplitUpload::has(const Manifest::Shard& entry) const {
  return files_of(folder_).is_uploaded(folder_ / entry.file, entry.facts());
}

void SplitUpload::begin_to_replace() {
  std::call_once(has_begun_, [&] {
    const auto& files = files_of(folder_);
    const fs::path manifest = folder_ / "manifest.json", replaced = folder_ / kReplaced;
    files.clean_up(folder_, staging_);
    if (files.exists(replaced)) {
      const auto names = files.open(replaced)->contents();
      for (const auto& name : split(as_text(names), '\n'))
        if (name.ends_with(".safetensors") && name.find('/') == std::string::npos) replaced_.insert(name);
      is_replacing_ = true;
    }
    if (!files.exists(manifest)) return;
    if (!replaces_)
      throw config_error(concat(folder_.string(),
                                ": a set has appeared there since this packing began; expected a new ",
                                "address, or --force to replace it"));
    try {
      for (const auto& shard : read_manifest(folder_).shards) replaced_.insert(shard.file);
    } catch (const Error& error) {  // a manifest that names nothing which could be removed
      if (error.kind() != ErrorKind::kCorrupt) throw;
    }
    is_replacing_ = true;
    note_replaced();
    files.remove(manifest);
  });
}

void SplitUpload::note_replaced() {
  const fs::path note = staging_ / kReplaced;
  write_text(note, join({replaced_.begin(), replaced_.end()}, "\n"));
  send_text(note);
  fs::remove(note);
}

void SplitUpload::send(const fs::path& file, const Manifest::Shard& entry, const std::atomic<bool>& stopped) {
  const InterruptScope::Check is_over = [&] { return stopped.load(); };
  const InterruptScope scope(is_over);
  begin_to_replace();
  if (!has(entry)) files_of(folder_).upload(folder_ / entry.file, file, entry.facts(), staging_);
}

/// It is read back, because without it, or with another manifest, there is no set, and a service need not state a sum.
void SplitUpload::send_text(const fs::path& file) {
  const auto bytes = read_file(file, UINT64_MAX);
  const fs::path to = folder_ / file.filename();
  files_of(folder_).upload(to, file, facts_of(bytes), staging_);
  if (files_of(folder_).open(to)->contents() != bytes)
    throw io_error(concat(to.string(), ": the service has stored other bytes than the ", bytes.size(),
                          " that were sent; expected these: pack again"));
}

void SplitUpload::publish(const fs::path& local, const std::string& list, const std::function<void()>& on_wait) {
  const InterruptScope::Check waits = [&] {
    on_wait();
    return false;
  };
  const InterruptScope scope(waits);
  begin_to_replace();
  if (fs::exists(local / list))
    send_text(local / list);
  else if (is_replacing_)
    replaced_.insert(list);
  send_text(local / "manifest.json");
  for (const auto& shard : read_manifest(local).shards) replaced_.erase(shard.file);
  for (const auto& file : replaced_) files_of(folder_).remove(folder_ / file);
  if (is_replacing_) files_of(folder_).remove(folder_ / kReplaced);
}

}  // namespace penstock::detail
