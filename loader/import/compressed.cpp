// unpack_stream(): gzip by zlib (RFC 1952), and zstd (RFC 8878) by its library.
#include "loader/import/compressed.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/error.h"
#include "core/temporary.h"
#include "core/text.h"
#include "loader/files/read_from.h"

namespace penstock::detail {
namespace {

constexpr uint64_t kFreeBytes = uint64_t{1} << 20, kMaxRatio = 100;
constexpr size_t kPieceBytes = size_t{1} << 20;

/// What a compressed file begins with.
struct Magic {
  const char* name;
  std::string_view bytes;
};
constexpr Magic kGzip{"gzip", "\x1F\x8B"}, kZstd{"zstd", "\x28\xB5\x2F\xFD"};
constexpr std::array<Magic, 3> kOthers{{{"bzip2", "BZh"}, {"xz", "\xFD\x37zXZ"}, {"lz4", "\x04\x22\x4D\x18"}}};

bool begins_with(std::span<const uint8_t> file, const Magic& magic) { return as_text(file).starts_with(magic.bytes); }

/// Passes on what is unpacked, as long as it is not too much.
class Bounded {
 public:
  Bounded(const std::string& where, const Magic& format, size_t file_bytes,
          const std::function<void(std::span<const uint8_t>)>& write)
      : where_(where), format_(format), most_(kFreeBytes + kMaxRatio * file_bytes), write_(write) {}

  std::span<uint8_t> piece() { return piece_; }
  void take(size_t count) {
    if (count > most_ - taken_)
      refuse(concat("unpacks to more than ", most_, " bytes"),
             concat("at most 1 MiB and ", kMaxRatio, " bytes for each of the file"));
    taken_ += count;
    if (count > 0) write_(std::span<const uint8_t>(piece_).first(count));
  }
  [[noreturn]] void refuse(const std::string& fact, const std::string& expected) const {
    throw corrupt_error(concat(where_, ": ", format_.name, ": ", fact, "; expected ", expected));
  }

 private:
  const std::string& where_;
  const Magic& format_;
  uint64_t most_, taken_ = 0;
  const std::function<void(std::span<const uint8_t>)>& write_;
  std::vector<uint8_t> piece_ = std::vector<uint8_t>(kPieceBytes);
};

/// The members of a gzip file, one after the other; zeros may follow the last one, as gzip itself allows.
void unpack_gzip(std::span<const uint8_t> file, Bounded& out) {
  constexpr int kGzipWindow = 15 + 16;
  z_stream stream{};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  bool is_member_open = true;
  while (is_member_open || (!file.empty() && file[0] != 0)) {
    if (!is_member_open) inflateReset(&stream);
    const auto piece = out.piece();
    const auto given = static_cast<uInt>(std::min(file.size(), size_t{1} << 30));
    stream.next_in = const_cast<uint8_t*>(file.data());  // zlib does not write there
    stream.avail_in = given;
    stream.next_out = piece.data();
    stream.avail_out = static_cast<uInt>(piece.size());
    const int code = inflate(&stream, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
      out.refuse(stream.msg != nullptr ? stream.msg : concat("error ", code), "a whole file");
    file = file.subspan(given - stream.avail_in);
    out.take(piece.size() - stream.avail_out);
    is_member_open = code != Z_STREAM_END;
    if (is_member_open && file.empty() && stream.avail_out > 0) out.refuse("the file is cut short", "a whole file");
  }
  if (std::any_of(file.begin(), file.end(), [](uint8_t byte) { return byte != 0; }))
    out.refuse("something follows the end", "nothing but zeros");
}

void unpack_zstd(std::span<const uint8_t> file, Bounded& out) {
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!context) throw std::bad_alloc();
  ZSTD_inBuffer in{file.data(), file.size(), 0};
  for (;;) {
    const auto piece = out.piece();
    ZSTD_outBuffer unpacked{piece.data(), piece.size(), 0};
    const size_t left = ZSTD_decompressStream(context.get(), &unpacked, &in);
    if (ZSTD_isError(left) != 0) out.refuse(ZSTD_getErrorName(left), "a whole file");
    out.take(unpacked.pos);
    if (in.pos < in.size || unpacked.pos == piece.size()) continue;
    if (left != 0) out.refuse("the file is cut short", "a whole file");
    return;
  }
}

std::filesystem::path temporary_folder(const std::string& what) {
  std::error_code failure;
  auto folder = std::filesystem::temp_directory_path(failure);
  if (!failure) return folder;
  for (const char* name : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"})  // in this order the library looks at them
    if (const char* value = std::getenv(name))
      throw io_error(concat(name, ": is ", in_quotes(value), ", which is no folder; expected one for ", what));
  throw io_error(concat("TMPDIR: is not set, and /tmp is no folder; expected one for ", what));
}

}  // namespace

bool unpack_stream(std::span<const uint8_t> file, const std::string& where,
                   const std::function<void(std::span<const uint8_t>)>& write) {
  for (const auto& other : kOthers)
    if (begins_with(file, other))
      throw corrupt_error(
          concat(where, ": is compressed by ", other.name, "; expected a plain file, or one of gzip or zstd"));
  const bool is_gzip = begins_with(file, kGzip);
  if (!is_gzip && !begins_with(file, kZstd)) return false;
  Bounded out(where, is_gzip ? kGzip : kZstd, file.size(), write);
  is_gzip ? unpack_gzip(file, out) : unpack_zstd(file, out);
  return true;
}

std::unique_ptr<MappedFile> map_unpacked(const std::filesystem::path& path) {
  auto file = std::make_unique<MappedFile>(path);
  std::unique_ptr<UnnamedFile> copy;
  bool is_compressed = false;
  const auto unnamed = [&]() -> UnnamedFile& {
    const std::string what = concat("the unpacked ", path.filename().string());
    if (!copy) copy = std::make_unique<UnnamedFile>(temporary_folder(what), what);
    return *copy;
  };
  read_from(*file, [&] {
    is_compressed = unpack_stream(file->bytes(), path.string(), [&](auto bytes) { unnamed().append(bytes); });
  });
  return is_compressed ? std::make_unique<MappedFile>(path, RegularFile(unnamed().link())) : std::move(file);
}

}  // namespace penstock::detail
