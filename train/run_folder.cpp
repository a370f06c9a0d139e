// The folder of a run: its name, its lock, and removing the files of an earlier run.
#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "train/kept_checkpoints.h"
#include "train/sinks/sink.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// Whether a run writes files of this name.
bool is_of_a_run(const std::string& name) {
  for (const char* own :
       {"options.json", "summary.json", "model.safetensors", "trace.json", "evaluation.json", "evaluation.csv"})
    if (name == own) return true;
  if (is_checkpoint_name(name)) return true;
  for (const auto& [sink, entry] : SinkRegistry::entries()) {
    const std::string& files = entry.traits.files;
    const bool is_its_own = files.ends_with('*') ? name.starts_with(files.substr(0, files.size() - 1)) : name == files;
    if (is_its_own) return true;
  }
  return name.starts_with("trace-rank-");
}

Error cannot_write(const fs::path& out, const std::error_code& failure) {
  return io_error(concat("--out ", out.string(), ": ", failure.message(), "; expected a folder that can be written"));
}

const fs::path& checked(const fs::path& out) {
  check_run_folder(out);
  return out;
}

}  // namespace

fs::path default_run_folder(const std::string& arch, const std::string& mode) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &local);
  return fs::path("runs") / concat(arch.substr(0, arch.find('(')), "-", mode.substr(0, mode.find('(')), "-", text);
}

void check_run_folder(const fs::path& out) {
  std::error_code failure;
  const auto status = fs::status(out, failure);
  if (status.type() == fs::file_type::none) throw cannot_write(out, failure);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status)) throw config_error(concat("--out ", out.string(), ": a file; expected a folder"));
  const bool is_empty = fs::is_empty(out, failure);
  const bool is_of_run = !failure && fs::exists(out / "options.json", failure);
  if (failure) throw cannot_write(out, failure);
  if (!is_empty && !is_of_run) {
    throw config_error(concat("--out ", out.string(), ": holds files, but no options.json of an earlier run; ",
                              "expected a new folder, an empty one, or a run's"));
  }
}

int lock_run_folder(const fs::path& out, const std::string& what) {
  const int lock = open(out.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(lock);
    throw config_error(concat("--out ", out.string(), ": another ", what, " is writing into it; expected a folder of ",
                              "this ", what, "'s own"));
  }
  return lock;
}

FolderLock::FolderLock(const fs::path& out) {
  std::error_code failure;
  fs::create_directories(out, failure);
  if (failure) throw cannot_write(out, failure);
  lock_ = lock_run_folder(out, "run");
}

FolderLock::~FolderLock() { close(lock_); }

RunFolder::RunFolder(const fs::path& out, bool is_resumed) : lock_(checked(out)) {
  std::error_code failure;
  std::vector<fs::path> earlier;
  for (const auto& entry : fs::directory_iterator(out, failure)) {
    const std::string name = entry.path().filename().string();
    const bool is_cut_short = is_checkpoint_name(name) && name.ends_with(kCutShort);
    if (is_cut_short || (!is_resumed && is_of_a_run(name))) earlier.push_back(entry.path());
  }
  for (const auto& path : earlier)
    if (!failure) fs::remove(path, failure);
  if (failure) throw cannot_write(out, failure);
}

}  // namespace penstock
