// JSON from elsewhere, read strictly (docs/release-format.md): RFC 8259 in UTF-8, whole numbers of at most 2^53, no key twice,
// at most 8 levels, 4096 values, 262144 bytes, no lone surrogates, no \u0000.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace edge {

constexpr size_t kMostJson = 262144;
constexpr int64_t kLargest = int64_t{1} << 53;

struct Json {
  using List = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // in the text's order
  std::variant<std::nullptr_t, bool, int64_t, std::string, List, Object> value = nullptr;
};

// Throws EDGE_REFUSED with this kind, such as "statement".
Json ReadJson(std::string_view text, const char* kind);

// A value within a document, which must outlive it. What is not as it must be is refused with the
// document's kind and the value's place: "predicate.sizes[2]: must be …". The place is searched for only then: three
// pointers cost much less code wherever a value is read than a text would.
class Node {
 public:
  Node(const Json& json, const char* kind) : json_(&json), whole_(&json), kind_(kind) {}

  // Refuses an object that has other members than these, or lacks one. `names` has spaces between them.
  void Exactly(std::string_view names) const;
  // Refuses an object that has other members than these.
  void AtMost(std::string_view names) const;
  bool Has(std::string_view name) const;
  // A member that must be there.
  Node operator[](std::string_view name) const;

  bool IsNull() const { return std::holds_alternative<std::nullptr_t>(json_->value); }
  bool Bool() const;
  int64_t Int(int64_t least, int64_t most) const;
  // Of so many bytes.
  const std::string& Text(size_t most, size_t least = 1) const;
  // So many lower-case hexadecimal digits.
  const std::string& Hex(size_t digits) const;
  std::vector<Node> List(size_t least, size_t most) const;
  // Names and members of an object, in the text's order.
  std::vector<std::pair<std::string_view, Node>> Members(size_t most) const;

  [[noreturn]] void Refuse(std::string_view why) const;

 private:
  const Json::Object& Object() const;
  Node Within(const Json& json) const;

  const Json* json_;
  const Json* whole_;
  const char* kind_;
};

}  // namespace edge
