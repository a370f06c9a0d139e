// Signed store: what ranks tell each other in a store to which anybody can connect.
#pragma once

#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace penstock::detail {

/// Texts of the ranks of one run. With a token, which only these ranks know, every text carries a code made of the
/// token, the key and the text, and what has another code counts as not there: who can connect to the store can remove
/// texts and put back older ones of the same key, but can put none of his own among them. Without a token texts are
/// stored as they are.
///
/// The code is HMAC (Krawczyk, Bellare and Canetti 1997), with SHA-1, which LibTorch has; the key is not padded.
/// Cost: 7 us per text that is written or read.
/// Thread-safety: that of the store.
class SignedStore {
 public:
  SignedStore(c10::intrusive_ptr<c10d::Store> store, std::string token)
      : store_(std::move(store)), token_(std::move(token)) {}

  void set(const std::string& key, const std::string& text) { store_->set(key, with_code(key, text)); }
  /// The text of the rank that came first, this one's if none was there.
  std::string set_first(const std::string& key, const std::string& text);
  std::optional<std::string> find(const std::string& key);
  /// One entry per key: its text, or nothing where it is no rank's. Waits for keys that are not there.
  std::vector<std::optional<std::string>> read(const std::vector<std::string>& keys);

  c10d::Store& raw() { return *store_; }
  const c10::intrusive_ptr<c10d::Store>& shared() const { return store_; }
  const std::string& token() const { return token_; }

 private:
  std::string with_code(const std::string& key, const std::string& text) const;
  std::optional<std::string> without_code(const std::string& key, const std::string& stored) const;

  c10::intrusive_ptr<c10d::Store> store_;
  std::string token_;
};

/// A name for what only those share who have the token, which it does not tell.
std::string name_of_token(const std::string& token);

}  // namespace penstock::detail
