// Base64 of RFC 4648 with padding, and nothing else: one text for each sequence of bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace edge::field {

std::optional<std::string> FromBase64(std::string_view text);

}  // namespace edge::field
