// for_each_member(): POSIX.1-2001 pax interchange format and GNU's extensions of it.
#include "loader/import/tar.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/bytes.h"
#include "core/error.h"
#include "core/number.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

constexpr uint64_t kBlock = 512;
constexpr uint64_t kMaxHeaderBytes = uint64_t{1} << 20;  // of a long name or of pax records

/// A field of a header. They lie at fixed places (IEEE Std 1003.1, pax, "ustar Interchange Format").
struct FieldPlace {
  size_t offset, size;
};
constexpr FieldPlace kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kMagic{257, 6}, kPrefix{345, 155};
constexpr size_t kType = 156;

class TarReader {
 public:
  TarReader(std::span<const uint8_t> archive, const std::string& where) : archive_(archive), where_(where) {}

  /// Returns whether the end is there.
  bool run(const std::function<void(const TarMember&)>& visit) {
    while (!is_end()) {
      const auto header = take(kBlock, "a header");
      check_sum(header);
      const char type = static_cast<char>(header[kType]);
      const bool is_extension = type == 'L' || type == 'K' || type == 'x' || type == 'g';
      const uint64_t size = long_size_ && !is_extension ? *long_size_ : number(header, kSize);
      const uint64_t offset = at_;
      const auto data = take(size, "a member's data");
      take((kBlock - size % kBlock) % kBlock, "a member's padding");
      if (type == 'L' || type == 'x') {
        read_extension(type, data);
        continue;
      }
      if (type == 'g' || type == 'K') continue;  // what holds for all members, and the target of a link
      const std::string path = long_path_.empty() ? short_path(header) : long_path_;
      long_path_.clear();
      long_size_.reset();
      if (type == '5') continue;
      check_member(path, type);
      visit({path, offset, size});
    }
    return has_end_;
  }

 private:
  [[noreturn]] void refuse(const std::string& fact, const std::string& expected) const {
    throw corrupt_error(concat(where_, ": byte ", begin_, ": ", fact, "; expected ", expected));
  }

  /// Whether the archive ends here: two blocks of zeros, and nothing but zeros after them; or after a whole member.
  bool is_end() {
    begin_ = at_;
    const auto rest = archive_.subspan(at_);
    const auto first = rest.first(std::min<size_t>(rest.size(), kBlock));
    if (std::any_of(first.begin(), first.end(), [](uint8_t byte) { return byte != 0; })) return false;
    has_end_ = rest.size() >= 2 * kBlock;
    if (!has_end_ && at_ == 0) refuse("the archive is cut short: it has no end", "two blocks of zeros");
    if (std::any_of(rest.begin(), rest.end(), [](uint8_t byte) { return byte != 0; }))
      refuse("something follows the end of the archive", "nothing but zeros");
    if (!long_path_.empty() || long_size_) refuse("the archive ends after a long name", "its member");
    return true;
  }

  std::span<const uint8_t> take(uint64_t count, const char* what) {
    if (count > archive_.size() - at_)
      refuse(concat("the archive is cut short: ", what, " of ", count, " bytes ends after ", archive_.size() - at_),
             "a whole archive");
    const auto bytes = archive_.subspan(at_, count);
    at_ += count;
    return bytes;
  }

  static std::string text(std::span<const uint8_t> header, const FieldPlace& place) {
    const auto field = header.subspan(place.offset, place.size);
    return {field.begin(), std::find(field.begin(), field.end(), 0)};
  }

  /// Reads octal digits or, where the first byte is 0x80, GNU's big-endian number.
  uint64_t number(std::span<const uint8_t> header, const FieldPlace& place) const {
    const auto field = header.subspan(place.offset, place.size);
    uint64_t value = 0;
    if (field[0] == 0x80) {
      for (size_t i = 1; i < field.size(); ++i) {
        if (value >> 56 != 0) refuse("a size of more than 64 bits", "one of at most the archive's");
        value = value << 8 | field[i];
      }
      return value;
    }
    size_t i = 0;
    while (i < field.size() && field[i] == ' ') ++i;
    for (; i < field.size() && field[i] >= '0' && field[i] <= '7'; ++i) value = value << 3 | (field[i] - '0');
    const bool is_ended = i == field.size() || field[i] == 0 || field[i] == ' ';
    if (!is_ended) refuse(concat("number ", in_quotes(text(header, place))), "octal digits");
    return value;
  }

  void check_sum(std::span<const uint8_t> header) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < kBlock; ++i) {
      const bool is_sum = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.size;
      sum += is_sum ? ' ' : header[i];
    }
    const uint64_t stated = number(header, kChecksum);
    if (sum != stated) refuse(concat("the checksum of the header is ", sum, ", it says ", stated), "a tar archive");
  }

  std::string short_path(std::span<const uint8_t> header) const {
    const std::string name = text(header, kName);
    const bool is_ustar = text(header, kMagic) == "ustar";  // GNU's is "ustar  ", and has other things in the prefix
    const std::string prefix = is_ustar ? text(header, kPrefix) : "";
    return prefix.empty() ? name : prefix + "/" + name;
  }

  /// GNU's long name, or pax records `<length> <key>=<value>\n`, of the next member.
  void read_extension(char type, std::span<const uint8_t> data) {
    if (data.size() > kMaxHeaderBytes) refuse(concat("a long name of ", data.size(), " bytes"), "at most 1 MiB");
    std::string_view rest = as_text(data);
    if (type == 'L') {
      long_path_ = rest.substr(0, rest.find('\0'));
      return;
    }
    while (!rest.empty() && rest[0] != '\0') {
      std::string_view after = rest;
      const size_t length = take_number<size_t>(after).value_or(0), digits = rest.size() - after.size();
      const bool is_record =
          length > digits + 1 && length <= rest.size() && rest[digits] == ' ' && rest[length - 1] == '\n';
      if (!is_record) refuse("a pax record that is none", "LENGTH KEY=VALUE");
      read_record(rest.substr(digits + 1, length - digits - 2));
      rest.remove_prefix(length);
    }
  }

  void read_record(std::string_view record) {
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) refuse("a pax record without '='", "LENGTH KEY=VALUE");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key.starts_with("GNU.sparse")) refuse("a sparse file", "whole files");
    if (key == "path") long_path_ = value;
    if (key != "size") return;
    const auto size = parse_number<uint64_t>(value);
    if (!size) refuse(concat("pax size ", in_quotes(value)), "a number");
    long_size_ = *size;
  }

  void check_member(const std::string& path, char type) const {
    if (type != '0' && type != '\0' && type != '7')
      refuse(concat("member ", in_quotes(path), " is ",
                    type == '1' || type == '2' ? "a link" : concat("of type ", in_quotes(std::string(1, type)))),
             "files and folders");
    const std::filesystem::path parts(path);
    const bool is_plain = !path.empty() && path.find('\0') == std::string::npos && !parts.is_absolute() &&
                          parts.has_filename() &&
                          std::none_of(parts.begin(), parts.end(), [](const auto& part) { return part == ".."; });
    if (!is_plain) refuse(concat("member ", in_quotes(path)), "a relative path without '..'");
  }

  std::span<const uint8_t> archive_;
  const std::string& where_;
  uint64_t at_ = 0, begin_ = 0;  // the next byte; where the member begins, for messages
  std::string long_path_;        // of the next member, from an extension
  std::optional<uint64_t> long_size_;
  bool has_end_ = false;
};

}  // namespace

bool for_each_member(std::span<const uint8_t> archive, const std::string& where,
                     const std::function<void(const TarMember&)>& visit) {
  return TarReader(archive, where).run(visit);
}

}  // namespace penstock::detail
