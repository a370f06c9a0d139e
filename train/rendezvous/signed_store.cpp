// Signed store: a code before each text.
#include "train/rendezvous/signed_store.h"

#include <c10/util/hash.h>

#include <algorithm>

#include "core/text.h"

namespace penstock::detail {
namespace {

std::string digest(const std::string& text) { return c10::sha1(text).str(); }

}  // namespace

std::string SignedStore::with_code(const std::string& key, const std::string& text) const {
  if (token_.empty()) return text;
  return concat(digest(token_ + digest(concat(token_, key, ' ', text))), ' ', text);
}

std::optional<std::string> SignedStore::without_code(const std::string& key, const std::string& stored) const {
  if (token_.empty()) return stored;
  const std::string text = stored.substr(std::min(stored.find(' '), stored.size() - 1) + 1);
  return stored == with_code(key, text) ? std::optional(text) : std::nullopt;
}

std::string SignedStore::set_first(const std::string& key, const std::string& text) {
  const std::string mine = with_code(key, text);
  std::string expected;
  while (true) {
    const std::string stored = store_->compareSet(key, expected, mine);
    if (const auto found = stored.empty() ? std::nullopt : without_code(key, stored)) return *found;
    expected = stored == expected ? "" : stored;  // a stranger's, which this one takes the place of
  }
}

std::optional<std::string> SignedStore::find(const std::string& key) {
  return store_->check({key}) ? read({key}).front() : std::nullopt;
}

std::vector<std::optional<std::string>> SignedStore::read(const std::vector<std::string>& keys) {
  std::vector<std::optional<std::string>> texts;
  if (keys.empty()) return texts;
  const auto all = store_->multiGet(keys);
  for (size_t i = 0; i < keys.size(); ++i)
    texts.push_back(all[i].empty() ? std::nullopt : without_code(keys[i], {all[i].begin(), all[i].end()}));
  return texts;
}

std::string name_of_token(const std::string& token) { return token.empty() ? "" : digest("name " + token); }

}  // namespace penstock::detail
