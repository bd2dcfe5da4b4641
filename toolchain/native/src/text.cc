#include "text.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "edge_rt.h"
#include "failure.h"

namespace edge {

Failure Usage(const std::string& message) { return Failure(EDGE_USAGE, "usage", message); }

Failure Io(const std::string& what) {
  return Failure(EDGE_FAILED, "io", what + ": " + std::strerror(errno));
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    size_t end = text.find(separator);
    if (end != 0) pieces.emplace_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return pieces;
}

std::optional<std::string> FirstLine(const std::string& path) {
  FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return std::nullopt;
  char line[256];
  const bool read = std::fgets(line, sizeof(line), file) != nullptr;
  std::fclose(file);
  if (!read) return std::nullopt;
  line[std::strcspn(line, "\n")] = '\0';
  return line;
}

std::string Quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + '"';
}

static std::string Join(const std::vector<std::string>& pieces) {
  std::string out = "[";
  for (const std::string& piece : pieces) {
    if (out.size() > 1) out += ", ";
    out += piece;
  }
  return out + "]";
}

std::string JsonArray(const std::vector<std::string>& values) {
  std::vector<std::string> quoted;
  for (const std::string& value : values) quoted.push_back(Quote(value));
  return Join(quoted);
}

std::string JsonArray(const std::vector<int>& values) {
  std::vector<std::string> numbers;
  for (int value : values) numbers.push_back(std::to_string(value));
  return Join(numbers);
}

std::string JsonNumber(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.6f", value);
  return text;
}

std::string JsonOrNull(const std::optional<std::string>& json) { return json.value_or("null"); }

}  // namespace edge
