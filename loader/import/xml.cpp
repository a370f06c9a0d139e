// parse_xml() by expat. A document type ends it at once, so that no entity is ever declared or expanded.
#include "loader/import/xml.h"

#include <expat.h>

#include <limits>
#include <memory>
#include <new>
#include <type_traits>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

constexpr size_t kMaxDepth = 16, kMaxElements = size_t{1} << 20;

struct Tree {
  XML_Parser parser;
  XmlElement root;
  std::vector<XmlElement*> open;  // from the root to where the parser is
  size_t count = 0;
  const char* refused = nullptr;

  void refuse(const char* fact) {
    refused = fact;
    XML_StopParser(parser, XML_FALSE);
  }
};

void on_start(void* data, const XML_Char* name, const XML_Char**) {
  auto& tree = *static_cast<Tree*>(data);
  if (tree.refused != nullptr) return;
  if (tree.open.size() >= kMaxDepth) return tree.refuse("more than 16 levels; expected an annotation");
  if (++tree.count > kMaxElements) return tree.refuse("more than 2^20 elements; expected an annotation");
  XmlElement* element = &tree.root;
  if (!tree.open.empty()) element = &tree.open.back()->children.emplace_back();
  element->name = name;
  tree.open.push_back(element);
}

void on_end(void* data, const XML_Char*) {
  auto& tree = *static_cast<Tree*>(data);
  if (tree.refused != nullptr) return;
  std::string& text = tree.open.back()->text;
  const size_t begin = text.find_first_not_of(" \t\r\n");
  text = begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
  tree.open.pop_back();
}

void on_text(void* data, const XML_Char* text, int length) {
  auto& tree = *static_cast<Tree*>(data);
  if (tree.refused == nullptr) tree.open.back()->text.append(text, static_cast<size_t>(length));
}

void on_doctype(void* data, const XML_Char*, const XML_Char*, const XML_Char*, int) {
  static_cast<Tree*>(data)->refuse("a document type, which may hold entities; expected none");
}

}  // namespace

const XmlElement* XmlElement::child(std::string_view wanted) const {
  for (const auto& element : children)
    if (element.name == wanted) return &element;
  return nullptr;
}

XmlElement parse_xml(std::span<const uint8_t> file) {
  const std::unique_ptr<std::remove_pointer_t<XML_Parser>, void (*)(XML_Parser)> parser(XML_ParserCreate(nullptr),
                                                                                        XML_ParserFree);
  if (!parser) throw std::bad_alloc();
  if (file.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
    throw corrupt_error(concat("XML of ", file.size(), " bytes; expected an annotation"));
  Tree tree{.parser = parser.get(), .root = {}, .open = {}};
  XML_SetUserData(parser.get(), &tree);
  XML_SetElementHandler(parser.get(), on_start, on_end);
  XML_SetCharacterDataHandler(parser.get(), on_text);
  XML_SetStartDoctypeDeclHandler(parser.get(), on_doctype);
  const auto status =
      XML_Parse(parser.get(), reinterpret_cast<const char*>(file.data()), static_cast<int>(file.size()), 1);
  if (tree.refused != nullptr) throw corrupt_error(concat("XML with ", tree.refused));
  if (status != XML_STATUS_OK)
    throw corrupt_error(concat("XML, line ", XML_GetCurrentLineNumber(parser.get()), ": ",
                               XML_ErrorString(XML_GetErrorCode(parser.get())), "; expected well-formed XML"));
  return std::move(tree.root);
}

}  // namespace penstock::detail
