// Answers requests about releases: see tests/field/program.py.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "edge_rt.h"
#include "failure.h"
#include "field/admit.h"
#include "field/base64.h"
#include "field/compare.h"
#include "field/statement.h"
#include "field/trust.h"
#include "json.h"
#include "npy.h"
#include "sha256.h"
#include "text.h"

namespace edge::field {
namespace {

using Request = std::vector<std::string>;

std::string Written(const Json& json) {
  std::string out;
  if (const bool* flag = std::get_if<bool>(&json.value)) return *flag ? "true" : "false";
  if (const int64_t* number = std::get_if<int64_t>(&json.value)) return std::to_string(*number);
  if (const auto* text = std::get_if<std::string>(&json.value)) return Quote(*text);
  if (const auto* list = std::get_if<Json::List>(&json.value)) {
    for (const Json& each : *list) out += (out.empty() ? "" : ",") + Written(each);
    return "[" + out + "]";
  }
  if (const auto* object = std::get_if<Json::Object>(&json.value)) {
    for (const auto& [name, each] : *object) out += (out.empty() ? "" : ",") + Quote(name) + ":" + Written(each);
    return "{" + out + "}";
  }
  return "null";
}

std::string Said(const std::optional<int64_t>& number) { return number ? std::to_string(*number) : "null"; }

std::string Said(const Trust& trust) {
  return Cat({"{\"version\":", trust.version, ",\"expires\":", trust.expires, ",\"root\":", trust.root.keys.size(),
              ",\"release\":", trust.release.keys.size(), "}"});
}

std::string Said(const Release& release) {
  std::string parts;
  for (const Part& part : release.parts) {
    parts += Cat({parts.empty() ? "" : ",", "[", Quote(part.name), ",", Quote(part.sha256), ",", part.bytes, "]"});
  }
  return Cat({"{\"app\":", Quote(release.app), ",\"version\":", Quote(release.version.text()), ",\"digest\":",
              Quote(release.digest), ",\"classes\":", JsonArray(release.classes), ",\"parts\":[", parts,
              "],\"inputs\":", release.inputs, ",\"outputs\":", release.outputs, ",\"latency_us\":",
              Said(release.budget.latency_us), ",\"device\":", Quote(release.run.device), ",\"verified\":",
              Quote(release.verified_class), "}"});
}

std::optional<Version> VersionOf(const std::string& text) {
  return text.empty() ? std::nullopt : Version::Read(text);
}

std::string Order(const std::string& a, const std::string& b) {
  const auto left = Version::Read(a), right = Version::Read(b);
  if (!left || !right) return "null";
  const auto order = *left <=> *right;
  return order < 0 ? "-1" : order > 0 ? "1" : "0";
}

std::string Compared(const Request& words) {
  static const Request kNames = {"values", "log-probabilities", "equal", "steps"};
  OutputTest test{static_cast<Comparison>(std::find(kNames.begin(), kNames.end(), words[1]) - kNames.begin()),
                  std::stoll(words[2]), std::nullopt, std::nullopt, {}};
  for (size_t i = 7; i < words.size();) {  // axis, number of ends, the ends
    test.parts.push_back({std::stoul(words[i]), {}});
    const size_t end = i + 2 + std::stoul(words[i + 1]);
    for (i += 2; i < end; ++i) test.parts.back().ends.push_back(std::stoll(words[i]));
  }
  if (!words[3].empty()) test.step = std::stod(words[3]);
  if (!words[4].empty()) test.values = std::stoll(words[4]);
  const Deviation deviation = Compare(test, ReadNpy(words[5]), ReadNpy(words[6]));
  return Cat({"{\"passed\":", deviation.passed ? "true" : "false", ",\"error_ppb\":", Said(deviation.error_ppb),
              ",\"problem\":", Quote(deviation.problem), "}"});
}

std::string Answer(const Request& words) {
  const std::string& what = words.at(0);
  if (what == "json") return Written(ReadJson(words.at(1), "text"));
  if (what == "base64") {
    const auto bytes = FromBase64(words.at(1));
    return bytes ? Cat({"[", bytes->size(), "]"}) : "null";
  }
  if (what == "sha256") {
    Sha256 sum;
    for (size_t i = 1; i < words.size(); ++i) sum.Add(words[i].data(), words[i].size());
    return Quote(sum.Digest());
  }
  if (what == "order") return Order(words.at(1), words.at(2));
  if (what == "compare") return Compared(words);
  if (what == "trust") return Said(ReadTrust(words.at(1)));
  if (what == "newest") return Said(Newest(ReadTrust(words.at(1)), Request(words.begin() + 2, words.end())));
  const Release release = ReadRelease(words.at(1), ReadTrust(words.at(2)), std::stoll(words.at(3)));
  if (what == "admit") {
    Admit(release, {words.at(4), VersionOf(words.at(5)), words.at(6), VersionOf(words.at(7)), words.at(8) == "1", ""});
  }
  return Said(release);
}

std::string Guarded(const Request& words) {
  try {
    return Answer(words);
  } catch (const Failure& failure) {
    return Cat({"{\"code\":", failure.code, ",\"kind\":", Quote(failure.kind), ",\"message\":", Quote(failure.what()), "}"});
  }
}

bool Read(void* bytes, size_t size) { return std::fread(bytes, 1, size, stdin) == size; }

bool Read(std::string* word) {
  uint32_t size;
  if (!Read(&size, sizeof size)) return false;
  word->resize(size);
  return Read(word->data(), size);
}

}  // namespace
}  // namespace edge::field

int main() {
  uint32_t count;
  while (edge::field::Read(&count, sizeof count)) {
    edge::field::Request words(count);
    for (std::string& word : words) {
      if (!edge::field::Read(&word)) return 1;
    }
    const std::string answer = edge::field::Guarded(words);
    const auto size = static_cast<uint32_t>(answer.size());
    std::fwrite(&size, sizeof size, 1, stdout);
    std::fwrite(answer.data(), 1, size, stdout);
    std::fflush(stdout);
  }
}
