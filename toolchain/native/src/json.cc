#include "json.h"

#include <algorithm>

#include "edge_rt.h"
#include "failure.h"
#include "text.h"

namespace edge {
namespace {

constexpr int kMostLevels = 8;
constexpr int kMostValues = 4096;
constexpr size_t kMostQuoted = 64;  // bytes of somebody's words in a message

void AppendUtf8(std::string* out, uint32_t point) {
  const auto put = [&](uint32_t byte) { *out += static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xc0 | point >> 6);
    put(0x80 | (point & 63));
  } else if (point < 0x10000) {
    put(0xe0 | point >> 12);
    put(0x80 | (point >> 6 & 63));
    put(0x80 | (point & 63));
  } else {
    put(0xf0 | point >> 18);
    put(0x80 | (point >> 12 & 63));
    put(0x80 | (point >> 6 & 63));
    put(0x80 | (point & 63));
  }
}

class JsonReader {
 public:
  JsonReader(std::string_view text, const char* kind) : text_(text), kind_(kind) {}

  Json Whole() {
    if (text_.size() > kMostJson) Fail("it has more than 262144 bytes");
    Json json = Value();
    Space();
    if (at_ != text_.size()) Fail("something follows the value");
    return json;
  }

 private:
  [[noreturn]] void Fail(const char* why) const {
    Throw(EDGE_REFUSED, kind_, {kind_, ": the JSON is wrong at byte ", at_, ": ", why});
  }
  // '\0' at the end: no text that is accepted holds that byte.
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void Space() {
    while (Peek() == ' ' || Peek() == '\n' || Peek() == '\r' || Peek() == '\t') ++at_;
  }
  bool Take(char c) {
    Space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool TakeWord(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Json Value() {
    Space();
    if (++values_ > kMostValues) Fail("there are more than 4096 values");
    switch (Peek()) {
      case '{':
        return {Members()};
      case '[':
        return {Elements()};
      case '"':
        return {Text()};
      case 't':
        if (TakeWord("true")) return {true};
        break;
      case 'f':
        if (TakeWord("false")) return {false};
        break;
      case 'n':
        if (TakeWord("null")) return {nullptr};
        break;
      default:
        return {Number()};
    }
    Fail("it is no value");
  }

  void Enter() {
    ++at_;
    if (++level_ > kMostLevels) Fail("there are more than 8 levels");
  }

  Json::Object Members() {
    Enter();
    Json::Object object;
    if (!Take('}')) {
      do {
        Space();
        if (Peek() != '"') Fail("a key is missing");
        std::string key = Text();
        for (const auto& member : object) {
          if (member.first == key) Fail("a key occurs twice");
        }
        if (!Take(':')) Fail("a colon is missing");
        object.emplace_back(std::move(key), Value());
      } while (Take(','));
      if (!Take('}')) Fail("an object does not end");
    }
    --level_;
    return object;
  }

  Json::List Elements() {
    Enter();
    Json::List list;
    if (!Take(']')) {
      do {
        list.push_back(Value());
      } while (Take(','));
      if (!Take(']')) Fail("a list does not end");
    }
    --level_;
    return list;
  }

  int64_t Number() {
    const bool negative = Peek() == '-';
    if (negative) ++at_;
    const size_t begin = at_;
    int64_t value = 0;
    while (Peek() >= '0' && Peek() <= '9') {
      value = value * 10 + (text_[at_++] - '0');
      if (value > kLargest) Fail("the number is larger than 2^53");
    }
    if (at_ == begin) Fail("it is no value");
    if (text_[begin] == '0' && (at_ - begin > 1 || negative)) Fail("the number begins with 0");
    if (Peek() == '.' || Peek() == 'e' || Peek() == 'E') Fail("the number is not whole");
    return negative ? -value : value;
  }

  std::string Text() {
    std::string out;
    for (++at_; Peek() != '"';) {
      if (at_ == text_.size()) Fail("a text does not end");
      if (static_cast<unsigned char>(text_[at_]) < 0x20) Fail("a control character is not escaped");
      if (text_[at_] == '\\') {
        ++at_;
        Escape(&out);
        continue;
      }
      const size_t size = Sequence(text_.substr(at_));
      if (size == 0) Fail("it is not UTF-8");
      out += text_.substr(at_, size);
      at_ += size;
    }
    ++at_;
    return out;
  }

  void Escape(std::string* out) {
    static constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const char letter = Peek();
    if (letter == 'u') {
      ++at_;
      AppendUtf8(out, Point());
      return;
    }
    const size_t which = letter == '\0' ? kLetters.npos : kLetters.find(letter);
    if (which == kLetters.npos) Fail("the escape is unknown");
    *out += kMeanings[which];
    ++at_;
  }

  // The character of \uXXXX, or of two of them.
  uint32_t Point() {
    const uint32_t high = FourDigits();
    if (high == 0) Fail("\\u0000 is not allowed");
    if (high < 0xd800 || high > 0xdfff) return high;
    if (high > 0xdbff || !TakeWord("\\u")) Fail("a surrogate is alone");
    const uint32_t low = FourDigits();
    if (low < 0xdc00 || low > 0xdfff) Fail("a surrogate is alone");
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
  }

  uint32_t FourDigits() {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = Peek();
      if (c >= '0' && c <= '9') {
        value = value * 16 + (c - '0');
      } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
        value = value * 16 + ((c | 32) - 'a' + 10);
      } else {
        Fail("\\u wants four hexadecimal digits");
      }
    }
    return value;
  }

  std::string_view text_;
  const char* kind_;
  size_t at_ = 0;
  int level_ = 0, values_ = 0;
};

std::string Shown(std::string_view name) { return Quote(name.substr(0, kMostQuoted)); }

// A member's name within a place: as it is if a format could have it, else quoted.
std::string Step(const std::string& name) {
  const bool plain = name.size() <= kMostQuoted && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == name.npos;
  return plain ? name : Shown(name);
}

// Appends the way from a value to one in it; whether it is in it.
bool Find(const Json& from, const Json* wanted, std::string* place) {
  if (&from == wanted) return true;
  const size_t size = place->size();
  const auto is_in = [&](const Json& inner, std::string_view step) {
    *place += step;
    if (Find(inner, wanted, place)) return true;
    place->resize(size);
    return false;
  };
  if (const auto* object = std::get_if<Json::Object>(&from.value)) {
    for (const auto& member : *object) {
      if (is_in(member.second, Cat({size == 0 ? "" : ".", Step(member.first)}))) return true;
    }
  } else if (const auto* list = std::get_if<Json::List>(&from.value)) {
    for (size_t i = 0; i < list->size(); ++i) {
      if (is_in((*list)[i], Cat({"[", i, "]"}))) return true;
    }
  }
  return false;
}

}  // namespace

Json ReadJson(std::string_view text, const char* kind) { return JsonReader(text, kind).Whole(); }

void Node::Refuse(std::string_view why) const {
  std::string place;
  Find(*whole_, json_, &place);
  Throw(EDGE_REFUSED, kind_, {kind_, ": ", place, place.empty() ? "" : " ", why});
}

Node Node::Within(const Json& json) const {
  Node node = *this;
  node.json_ = &json;
  return node;
}

const Json::Object& Node::Object() const {
  const auto* object = std::get_if<Json::Object>(&json_->value);
  if (object == nullptr) Refuse("must be an object");
  return *object;
}

void Node::AtMost(std::string_view names) const {
  const std::vector<std::string> known = Split(names, ' ');
  for (const auto& member : Object()) {
    if (std::find(known.begin(), known.end(), member.first) == known.end()) {
      Refuse(Cat({"has a member that the format does not know: ", Shown(member.first)}));
    }
  }
}

void Node::Exactly(std::string_view names) const {
  AtMost(names);
  for (const std::string& name : Split(names, ' ')) (*this)[name];
}

bool Node::Has(std::string_view name) const {
  return std::any_of(Object().begin(), Object().end(), [&](const auto& member) { return member.first == name; });
}

Node Node::operator[](std::string_view name) const {
  for (const auto& member : Object()) {
    if (member.first == name) return Within(member.second);
  }
  Refuse(Cat({"lacks ", name}));
}

bool Node::Bool() const {
  const bool* value = std::get_if<bool>(&json_->value);
  if (value == nullptr) Refuse("must be true or false");
  return *value;
}

int64_t Node::Int(int64_t least, int64_t most) const {
  const int64_t* value = std::get_if<int64_t>(&json_->value);
  if (value == nullptr || *value < least || *value > most) {
    Refuse(Cat({"must be a whole number from ", least, " to ", most}));
  }
  return *value;
}

const std::string& Node::Text(size_t most, size_t least) const {
  const auto* value = std::get_if<std::string>(&json_->value);
  if (value == nullptr || value->size() < least || value->size() > most) {
    Refuse(Cat({"must be a text of ", least, " to ", most, " bytes"}));
  }
  return *value;
}

const std::string& Node::Hex(size_t digits) const {
  const auto* value = std::get_if<std::string>(&json_->value);
  if (value == nullptr || value->size() != digits || value->find_first_not_of("0123456789abcdef") != value->npos) {
    Refuse(Cat({"must be ", digits, " hexadecimal digits"}));
  }
  return *value;
}

std::vector<Node> Node::List(size_t least, size_t most) const {
  const auto* list = std::get_if<Json::List>(&json_->value);
  if (list == nullptr || list->size() < least || list->size() > most) {
    Refuse(Cat({"must be a list of ", least, " to ", most, " values"}));
  }
  std::vector<Node> nodes;
  for (const Json& element : *list) nodes.push_back(Within(element));
  return nodes;
}

std::vector<std::pair<std::string_view, Node>> Node::Members(size_t most) const {
  if (Object().size() > most) Refuse(Cat({"has more than ", most, " members"}));
  std::vector<std::pair<std::string_view, Node>> members;
  for (const auto& member : Object()) members.emplace_back(member.first, Within(member.second));
  return members;
}

}  // namespace edge
