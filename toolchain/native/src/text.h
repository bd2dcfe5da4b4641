// Text: splitting, small files, JSON.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace edge {

// A word or a whole number, for Cat; it points to what it was made of.
class Piece {
 public:
  Piece(const char* text) : text_(text) {}
  Piece(std::string_view text) : text_(text) {}
  Piece(const std::string& text) : text_(text) {}
  Piece(std::integral auto number) { Write(static_cast<int64_t>(number)); }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

  std::string_view text() const { return text_; }

 private:
  void Write(int64_t number);

  char digits_[24];
  std::string_view text_;
};

// One after the other. Sentences that are made of many pieces are smaller by it than by `+`.
std::string Cat(std::initializer_list<Piece> pieces);
// A number with its noun, such as "1 input" or "2 inputs"; `many` is a plural that has no s behind `one`.
std::string Counted(int64_t number, const char* one, const char* many = nullptr);
// Throws a Failure with this message: where it is called there is less code than with `throw`.
[[noreturn]] void Throw(int code, const char* kind, std::initializer_list<Piece> message);

// Empty pieces are dropped.
std::vector<std::string> Split(std::string_view text, char separator);
// The first line of a small file (sysfs), or nothing.
std::optional<std::string> FirstLine(const std::string& path);

// A whole number of at most `most`, in decimal digits alone: no sign, no blank.
std::optional<uint64_t> WholeNumber(std::string_view text, uint64_t most);
// The same at the beginning of a text, whatever follows.
std::optional<uint64_t> LeadingNumber(std::string_view text, uint64_t most);
// A decimal number that is finite, and nothing else.
std::optional<double> DecimalNumber(const std::string& text);

// Bytes of the UTF-8 sequence that a text, which is not empty, begins with; 0 if it begins with none (RFC 3629: neither
// overlong, nor a surrogate, nor above U+10FFFF).
size_t Sequence(std::string_view text);
std::string Quote(std::string_view text);
// Whether it is what Quote may have written.
bool IsQuoted(std::string_view text);
std::string JsonArray(const std::vector<std::string>& values);
std::string JsonArray(const std::vector<int>& values);
// Six digits after the point: nanoseconds for a number of milliseconds.
std::string JsonNumber(double value);
// Three digits, for people.
std::string ShortNumber(double value);

}  // namespace edge
