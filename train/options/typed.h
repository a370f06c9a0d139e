// Typed: the text of a flag together with what it means, so that a text is parsed where it is set and nowhere else.
#pragma once

#include <ostream>
#include <string>

namespace penstock {

/// Setting a text parses it, and throws what the parser throws; text and value never contradict each other.
/// Options.json and messages have the text as it was typed, everything else the value.
template <class Value>
class Typed {
 public:
  using Parse = Value (*)(const std::string& text);

  Typed(Parse parse, const std::string& text) : parse_(parse), text_(text), value_(parse(text)) {}
  Typed& operator=(const std::string& text) {
    value_ = parse_(text);
    text_ = text;
    return *this;
  }

  const std::string& text() const { return text_; }
  const Value& operator*() const { return value_; }
  const Value* operator->() const { return &value_; }

  friend std::ostream& operator<<(std::ostream& out, const Typed& typed) { return out << typed.text_; }

 private:
  Parse parse_;
  std::string text_;
  Value value_;
};

}  // namespace penstock
