#include "field/members.h"

#include "text.h"

namespace edge::field {

void AppendTo(std::string* elements, std::string_view json) {
  if (!elements->empty()) *elements += ", ";
  *elements += json;
}

JsonMembers& JsonMembers::Value(std::string_view name, std::string_view json) {
  AppendTo(&text_, Cat({"\"", name, "\": ", json}));
  return *this;
}

JsonMembers& JsonMembers::Text(std::string_view name, std::string_view text) { return Value(name, Quote(text)); }

JsonMembers& JsonMembers::TextOrNull(std::string_view name, const std::optional<std::string>& text) {
  return text ? Text(name, *text) : Value(name, "null");
}

JsonMembers& JsonMembers::Number(std::string_view name, int64_t number) { return Value(name, Piece(number).text()); }

std::string JsonMembers::Object() const { return Cat({"{", text_, "}"}); }

}  // namespace edge::field
