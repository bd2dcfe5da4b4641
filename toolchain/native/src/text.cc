#include "text.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "edge_rt.h"
#include "failure.h"

namespace edge {

Failure Usage(const std::string& message) { return Failure(EDGE_USAGE, "usage", message); }

Failure Io(const std::string& what) {
  return Failure(EDGE_FAILED, kIo, what + ": " + std::strerror(errno));
}

void Piece::Write(int64_t number) { text_ = {digits_, std::to_chars(digits_, digits_ + sizeof digits_, number).ptr}; }

std::string Cat(std::initializer_list<Piece> pieces) {
  std::string text;
  for (const Piece& piece : pieces) text += piece.text();
  return text;
}

std::string Counted(int64_t number, const char* one, const char* many) {
  if (number == 1) return Cat({"1 ", one});
  return many != nullptr ? Cat({number, " ", many}) : Cat({number, " ", one, "s"});
}

void Throw(int code, const char* kind, std::initializer_list<Piece> message) { throw Failure(code, kind, Cat(message)); }

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
  char line[1024];
  const bool read = std::fgets(line, sizeof(line), file) != nullptr;
  std::fclose(file);
  if (!read) return std::nullopt;
  line[std::strcspn(line, "\n")] = '\0';
  return line;
}

std::optional<uint64_t> WholeNumber(std::string_view text, uint64_t most) {
  if (text.empty()) return std::nullopt;
  uint64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9' || __builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, c - '0', &number)) {
      return std::nullopt;
    }
  }
  return number <= most ? std::optional(number) : std::nullopt;
}

std::optional<uint64_t> LeadingNumber(std::string_view text, uint64_t most) {
  return WholeNumber(text.substr(0, text.find_first_not_of("0123456789")), most);
}

std::optional<double> DecimalNumber(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool decimal = !text.empty() && text.find_first_not_of("+-.0123456789eE") == text.npos;
  if (!decimal || end != text.c_str() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

size_t Sequence(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  const size_t size = lead < 0x80 ? 1
                      : lead < 0xc2 ? 0
                      : lead < 0xe0 ? 2
                      : lead < 0xf0 ? 3
                      : lead < 0xf5 ? 4
                                    : 0;
  if (size > text.size()) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((text[i] & 0xc0) != 0x80) return 0;
  }
  const auto second = static_cast<uint8_t>(size > 1 ? text[1] : 0);
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
      (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) {
    return 0;
  }
  return size;
}

std::string Quote(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const char c = text[0];
    const size_t size = Sequence(text);
    if (size == 0) {
      out += "\\ufffd";  // file names may be anything, JSON may not
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (size == 1 && c < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      out += escaped;
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out + '"';
}

bool IsQuoted(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return false;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    size_t size = Sequence(text);
    if (text[0] == '\\') {
      const char next = text.size() > 1 ? text[1] : '\0';
      const bool number = next == 'u' && text.size() >= 6 &&
                          text.substr(2, 4).find_first_not_of("0123456789abcdefABCDEF") == text.npos;
      size = number ? 6 : next == '"' || next == '\\' ? 2 : 0;
    } else if (text[0] == '"' || (size == 1 && text[0] < 0x20)) {
      size = 0;
    }
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
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

std::string ShortNumber(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string JsonNumber(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.6f", value);
  return text;
}

}  // namespace edge
