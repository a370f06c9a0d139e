// The folder of a run.
#include "train/run_folder.h"

#include <ctime>

#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// The files that a run writes.
bool is_of_a_run(const std::string& name) {
  for (const char* own : {"options.json", "metrics.jsonl", "metrics.csv", "summary.json", "model.safetensors",
                          "checkpoint-last.safetensors", "checkpoint-best.safetensors"})
    if (name == own) return true;
  return name.starts_with("events.out.tfevents.");
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
  if (!fs::exists(out)) return;
  if (!fs::is_directory(out)) throw config_error(concat("--out ", out.string(), ": a file; expected a folder"));
  if (!fs::is_empty(out) && !fs::exists(out / "options.json")) {
    throw config_error(concat("--out ", out.string(), ": holds files, but no options.json of an earlier run; ",
                              "expected a new folder, an empty one, or a run's"));
  }
}

void prepare_run_folder(const fs::path& out, bool is_resumed) {
  check_run_folder(out);
  try {
    fs::create_directories(out);
    if (is_resumed) return;
    for (const auto& entry : fs::directory_iterator(out))
      if (is_of_a_run(entry.path().filename().string())) fs::remove(entry.path());
  } catch (const fs::filesystem_error& error) {
    throw io_error(
        concat("--out ", out.string(), ": ", error.code().message(), "; expected a folder that can be written"));
  }
}

}  // namespace penstock
