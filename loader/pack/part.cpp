// Part: attempts in folders of their own, of which a link says the one that counts.
#include "loader/pack/part.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/regular_file.h"
#include "core/strict_json.h"
#include "core/text.h"
#include "loader/files/checksum.h"

namespace penstock::detail {
namespace {

namespace fs = std::filesystem;

constexpr int kMostAttempts = 1000;  // of one part at the same time, on one machine

/// The name of this machine, as far as a file's name can have it.
std::string host() {
  std::array<char, 65> name{};
  gethostname(name.data(), name.size() - 1);
  std::string text(name.data());
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-') c = '_';
  return text.empty() ? "host" : text;
}

fs::path link_of(const PackOptions& options) {
  return parts_folder(options.output, options.split) / concat("part-", options.part->index, ".json");
}

/// Whether the part is finished. Throws config_error for one of another data set, or removes it.
bool is_finished(const PackOptions& options, const std::string& key, const std::string& codebook) {
  const auto link = link_of(options);
  if (!fs::exists(link)) return false;
  const PartFile there = read_part(link);
  const bool is_same = there.key == key && there.count == options.part->count && there.index == options.part->index &&
                       (codebook.empty() || there.codebook == codebook);
  if (is_same) return true;
  if (!options.force) {
    throw config_error(concat(link.string(), ": is part ", there.index, "/", there.count,
                              " of a packing with another source or other options; expected that of this one, or ",
                              "--force to replace it"));
  }
  fs::remove(link);
  fs::remove_all(link.parent_path() / there.folder);
  return false;
}

}  // namespace

fs::path parts_folder(const fs::path& output, const std::string& split) { return output / ("." + split + ".parts"); }

std::string attempt_name(const Partial& partial) { return partial.final_folder().filename().string(); }

std::string hash_text(std::span<const uint8_t> bytes) { return bytes.empty() ? "" : xxh3_hex(bytes); }

PartFile read_part(const fs::path& path) {
  const std::string text = read_text(path);
  try {
    const auto object = parse_strict_json(text, path.string(), 2);
    PartFile part{.key = object.at("key").get<std::string>(),
                  .codebook = object.at("codebook").get<std::string>(),
                  .index = object.at("index").get<int>(),
                  .count = object.at("count").get<int>(),
                  .folder = object.at("folder").get<std::string>(),
                  .skipped_count = object.at("skipped_count").get<uint64_t>(),
                  .tally = object.at("tally").get<std::vector<uint64_t>>()};
    const bool is_plain = !part.folder.empty() && part.folder[0] != '.' && part.folder.find('/') == std::string::npos;
    if (is_plain && part.index >= 0 && part.count >= 0 && (part.count == 0 || part.index < part.count)) return part;
  } catch (const nlohmann::json::exception&) {  // a key that lacks, or is of another type
  }
  throw corrupt_error(concat(path.string(), ": is no ", kPartFile, " that shardprep pack --part has written; expected ",
                             "to remove it and to pack that part again"));
}

std::unique_ptr<Partial> open_partial(const PackOptions& options, const std::string& key, const std::string& codebook,
                                      const Tally& empty) {
  const std::string own_key = key + codebook;
  if (!options.part) return std::make_unique<Partial>(options.output, options.split, own_key, empty);
  const auto folder = parts_folder(options.output, options.split);
  const std::string name = concat("part-", options.part->index, ".");
  if (options.part->has_own_rows())
    return std::make_unique<Partial>(folder, name + options.part->attempt, own_key, empty);
  if (is_finished(options, key, codebook)) return nullptr;
  for (int number = 0; number < kMostAttempts; ++number) {
    try {
      auto partial = std::make_unique<Partial>(folder, concat(name, host(), "-", number), own_key, empty);
      // Again, because the attempt that had this folder until now may just have finished.
      return is_finished(options, key, codebook) ? nullptr : std::move(partial);
    } catch (const Partial::Busy&) {
    }
  }
  throw io_error(concat(folder.string(), ": ", kMostAttempts, " attempts at part ", options.part->index,
                        " are running; expected fewer"));
}

void publish_part(Partial& partial, const PackOptions& options, PartFile part) {
  part.folder = attempt_name(partial);
  const nlohmann::ordered_json object{
      {"key", part.key},       {"codebook", part.codebook},           {"index", part.index}, {"count", part.count},
      {"folder", part.folder}, {"skipped_count", part.skipped_count}, {"tally", part.tally}};
  const std::string text = object.dump() + "\n";
  write_text(partial.folder() / kPartFile, text);
  partial.publish(/*force=*/true);  // what is there is what was published by an attempt that was killed right after it
  if (part.count == 0) return;      // who merges says which attempts count
  const auto link = link_of(options);
  if (::link((partial.final_folder() / kPartFile).c_str(), link.c_str()) == 0) {
    sync_folder(link.parent_path());
  } else if (errno == EEXIST) {
    if (read_part(link).folder != part.folder) fs::remove_all(partial.final_folder());
  } else {  // a file system without hard links
    write_text(link, text);
  }
}

}  // namespace penstock::detail
