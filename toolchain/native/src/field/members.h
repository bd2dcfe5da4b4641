// JSON that the board says, a member after the other. Less code than a sentence of many pieces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace edge::field {

class JsonMembers {
 public:
  JsonMembers& Text(std::string_view name, std::string_view text);
  // null where there is none.
  JsonMembers& TextOrNull(std::string_view name, const std::optional<std::string>& text);
  JsonMembers& Number(std::string_view name, int64_t number);
  // JSON as it is.
  JsonMembers& Value(std::string_view name, std::string_view json);

  const std::string& text() const { return text_; }
  // With braces around them.
  std::string Object() const;

 private:
  std::string text_;
};

// Appends JSON to a list's elements.
void AppendTo(std::string* elements, std::string_view json);

}  // namespace edge::field
