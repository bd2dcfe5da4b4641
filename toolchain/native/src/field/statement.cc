#include "field/statement.h"

#include <algorithm>
#include <cstdlib>

#include "edge_rt.h"
#include "failure.h"
#include "field/names.h"
#include "json.h"
#include "sha256.h"
#include "text.h"

namespace edge::field {
namespace {

constexpr char kStatement[] = "statement";
// The first type compares each output as a whole; the second says in which parts.
constexpr std::string_view kOfWholes = "urn:edge-toolchain:release:1", kByParts = "urn:edge-toolchain:release:2";
constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz", kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kNumerals = "0123456789";
constexpr size_t kMostName = 255;           // bytes
constexpr size_t kMostWord = 256;           // bytes
// As toolchain/bundles/layout.py has them.
constexpr int64_t kMostManifest = 4 << 20, kMostLibrary = int64_t{2} << 30, kMostArray = 1 << 30;
constexpr int64_t kMostSeconds = 86400;     // of a self-test
constexpr int64_t kClockTolerance = 86400;  // seconds that a board's clock may be behind the host's

bool ConsistsOf(std::string_view text, std::initializer_list<std::string_view> characters) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return std::any_of(characters.begin(), characters.end(), [c](std::string_view set) { return set.find(c) != set.npos; });
  });
}

// A word that begins with a letter or a digit: no option of a command, no path.
const std::string& Word(const Node& node, size_t most, std::string_view more) {
  const std::string& text = node.Text(most);
  if (!ConsistsOf(text, {kLower, kUpper, kNumerals, more}) || !ConsistsOf(text.substr(0, 1), {kLower, kUpper, kNumerals, "_"})) {
    node.Refuse(Cat({"must be a word of letters, digits and ", more}));
  }
  return text;
}

std::vector<std::string> Words(const Node& node, size_t count, size_t most, std::string_view more) {
  std::vector<std::string> words;
  for (const Node& each : node.List(0, count)) words.push_back(Word(each, most, more));
  return words;
}

const std::string& ClassName(const Node& node) {
  const std::string& text = node.Text(kMostName);
  if (!IsClassName(text)) node.Refuse("must be a class of boards");
  return text;
}

std::vector<std::string> ReadClasses(const Node& node) {
  std::vector<std::string> names;
  for (const Node& each : node.List(1, 64)) {
    if (std::count(names.begin(), names.end(), ClassName(each)) != 0) each.Refuse("occurs twice");
    names.push_back(ClassName(each));
  }
  return names;
}

std::optional<int64_t> IntOrNull(const Node& node, int64_t least, int64_t most) {
  if (node.IsNull()) return std::nullopt;
  return node.Int(least, most);
}

std::string Digest(const Node& subject) {
  subject.Exactly("name digest");
  subject["digest"].Exactly("sha256");
  return subject["digest"]["sha256"].Hex(64);
}

// Names of a bundle's parts, in their order.
std::string NameOf(int part, int inputs) {
  if (part < 2) return part == 0 ? "manifest.json" : "library.so";
  part -= 2;
  return part < inputs ? Cat({"sample/", part, ".npy"}) : Cat({"expected/", part - inputs, ".npy"});
}

int64_t MostBytes(int part) { return part == 0 ? kMostManifest : part == 1 ? kMostLibrary : kMostArray; }

void ReadParts(const Node& subjects, const Node& sizes, Release* release) {
  const std::vector<Node> named = subjects.List(4, kMostParts + 1);
  release->digest = Digest(named[0]);
  if (named[0]["name"].Text(kMostName) != "bundle") named[0].Refuse("must be the bundle");
  const int count = static_cast<int>(named.size()) - 1;
  for (const Node& subject : named) release->inputs += subject["name"].Text(kMostName).starts_with("sample/");
  release->outputs = count - 2 - release->inputs;
  const std::vector<Node> bytes = sizes.List(count, count);
  int64_t total = 0;
  for (int i = 0; i < count; ++i) {
    const Node& subject = named[i + 1];
    Part part{NameOf(i, release->inputs), Digest(subject), bytes[i].Int(0, MostBytes(i))};
    if (subject["name"].Text(kMostName) != part.name) subject.Refuse(Cat({"must be ", part.name}));
    total += part.bytes;
    release->parts.push_back(std::move(part));
  }
  if (total > kMostBytes) sizes.Refuse("are more than 4 GiB together");
  if (release->inputs == 0 || release->outputs == 0) subjects.Refuse("lacks an input or an output");
}

Requirements ReadRequirements(const Node& node) {
  node.Exactly("arch glibc tvm tvm_ffi features devices functions");
  Requirements requirements;
  requirements.arch = Word(node["arch"], 32, "_");
  if (!node["glibc"].IsNull()) {
    requirements.glibc = Word(node["glibc"], 16, ".");
    if (!ConsistsOf(*requirements.glibc, {kNumerals, "."})) node["glibc"].Refuse("must be a version");
  }
  requirements.tvm = Word(node["tvm"], 64, "._+-");
  requirements.tvm_ffi = Word(node["tvm_ffi"], 64, "._+-");
  requirements.features = Words(node["features"], 256, 64, "._-");
  requirements.devices = Words(node["devices"], 16, 32, "_");
  for (const std::string& kind : requirements.devices) {
    if (!ConsistsOf(kind, {kLower, kNumerals, "_"}) || kLower.find(kind[0]) == kLower.npos) {
      node["devices"].Refuse("must be kinds of devices");
    }
  }
  requirements.functions = Words(node["functions"], 256, 200, "._");
  for (const std::string& name : requirements.functions) {
    if (kNumerals.find(name[0]) != kNumerals.npos) node["functions"].Refuse("must begin with letters");
  }
  return requirements;
}

void ReadRun(const Node& node, Release* release) {
  node.Exactly("device threads cluster");
  // A kind, or a kind and a device's name, in which anything is that a driver says.
  const std::string& device = node["device"].Text(233);
  if (!ConsistsOf(device.substr(0, 1), {kLower}) ||
      std::any_of(device.begin(), device.end(), [](char c) { return c < '!' || c > '~'; })) {
    node["device"].Refuse("must be a device: a kind, or a kind and a name after a colon");
  }
  release->run.device = device;
  release->run.threads = static_cast<int>(node["threads"].Int(1, 4096));
  release->run.cluster = Word(node["cluster"], 64, "._+-");
}

double Step(const Node& node) {
  const std::string& text = node.Text(24);
  char* end = nullptr;
  const bool decimal = ConsistsOf(text, {kNumerals, ".e-+"}) && ConsistsOf(text.substr(0, 1), {kNumerals}) &&
                       ConsistsOf(text.substr(text.size() - 1), {kNumerals}) && text.find(".e") == text.npos;
  const double step = decimal ? std::strtod(text.c_str(), &end) : 0;
  // Not larger than any float: products with it stay finite.
  if (end == nullptr || *end != '\0' || !(step > 0) || step > 3.4e38) node.Refuse("must be a decimal number above 0");
  return step;
}

Comparison ReadComparison(const Node& node) {
  const std::string& name = node.Text(32);
  if (name == "values") return Comparison::kValues;
  if (name == "log-probabilities") return Comparison::kLogProbabilities;
  if (name == "equal") return Comparison::kEqual;
  if (name == "steps") return Comparison::kSteps;
  node.Refuse("is no way to compare outputs");
}

std::vector<PartEnds> ReadOutputParts(const Node& node) {
  std::vector<PartEnds> parts;
  size_t count = 1;
  for (const auto& [name, ends] : node.Members(32)) {
    PartEnds along{0, {}};
    for (const char numeral : name) along.axis = along.axis * 10 + static_cast<size_t>(numeral - '0');
    const bool number = !name.empty() && name.size() <= 2 && ConsistsOf(name, {kNumerals}) && name == Cat({along.axis});
    if (!number || along.axis >= 32 || (!parts.empty() && along.axis <= parts.back().axis)) {
      ends.Refuse("must be named by an axis, in rising order");
    }
    for (const Node& end : ends.List(2, kMostOutputParts)) {
      along.ends.push_back(end.Int(along.ends.empty() ? 1 : along.ends.back() + 1, kLargest));
    }
    if ((count *= along.ends.size()) > kMostOutputParts) ends.Refuse("make too many parts");
    parts.push_back(std::move(along));
  }
  return parts;
}

OutputTest ReadOutput(const Node& node, bool by_parts) {
  node.Exactly(by_parts ? "compare tolerance_ppb step values parts" : "compare tolerance_ppb step values");
  OutputTest test{ReadComparison(node["compare"]), node["tolerance_ppb"].Int(0, kLargest), std::nullopt,
                  IntOrNull(node["values"], 1, kLargest), {}};
  if (by_parts) test.parts = ReadOutputParts(node["parts"]);
  if (!test.parts.empty() && test.compare != Comparison::kValues) node["parts"].Refuse("must be empty unless values are compared");
  if (!node["step"].IsNull()) test.step = Step(node["step"]);
  if (test.step.has_value() != (test.compare == Comparison::kSteps)) {
    node["step"].Refuse("must be given for comparisons in steps, and be null for others");
  }
  if (test.values && !test.step) node["values"].Refuse("must be null unless outputs are compared in steps");
  return test;
}

void ReadTest(const Node& node, bool by_parts, Release* release) {
  node.Exactly("runs timeout_s outputs");
  release->test.runs = static_cast<int>(node["runs"].Int(1, 10000));
  release->test.timeout_s = node["timeout_s"].Int(1, kMostSeconds);
  for (const Node& each : node["outputs"].List(release->outputs, release->outputs)) {
    release->test.outputs.push_back(ReadOutput(each, by_parts));
  }
}

void ReadVerified(const Node& node, Release* release) {
  if (node.IsNull()) return;
  node.Exactly("board_class at error_ppb latency_us");
  release->verified_class = ClassName(node["board_class"]);
  node["at"].Int(1, kLargest);
  node["error_ppb"].Int(0, kLargest);
  IntOrNull(node["latency_us"], 1, kLargest);
}

// Without control characters: U+0000 to U+001F, and U+007F to U+009F.
bool IsPlain(std::string_view text) {
  if (text.empty() || text.size() > kMostWord) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7f) return false;
    if (byte == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0) return false;  // it is UTF-8: there is one
  }
  return true;
}

void ReadProvenance(const Node& node) {
  for (const auto& member : node.Members(64)) {
    if (!IsPlain(member.first) || !IsPlain(member.second.Text(kMostWord))) {
      member.second.Refuse("and its name must be texts of 1 to 256 bytes without control characters");
    }
  }
}

void ReadPredicate(const Node& node, const Node& subjects, bool by_parts, Release* release) {
  node.Exactly("app version issued expires classes sizes requires run test budget verified provenance");
  release->app = node["app"].Text(kMostName);
  if (!IsAppName(release->app)) node["app"].Refuse("must name an app, and no file of the board");
  std::optional<Version> version = Version::Read(node["version"].Text(kMostVersion));
  if (!version) node["version"].Refuse("must be a semantic version without build metadata");
  release->version = *std::move(version);
  release->issued = node["issued"].Int(1, kLargest - 1);
  release->expires = node["expires"].Int(release->issued + 1, kLargest);
  release->classes = ReadClasses(node["classes"]);
  ReadParts(subjects, node["sizes"], release);
  release->requirements = ReadRequirements(node["requires"]);
  ReadRun(node["run"], release);
  ReadTest(node["test"], by_parts, release);
  node["budget"].Exactly("latency_us memory_kib");
  release->budget.latency_us = IntOrNull(node["budget"]["latency_us"], 1, kLargest);
  release->budget.memory_kib = IntOrNull(node["budget"]["memory_kib"], 1, kLargest);
  ReadVerified(node["verified"], release);
  ReadProvenance(node["provenance"]);
}

// A moment in seconds since 1970 as people read it, as the host's releases/moments.py has it. By hand: time_t may have 32 bits.
std::string Day(int64_t moment) {
  constexpr int64_t kDay = 86400, kEra = 146097;  // days of 400 years
  if (moment < 0 || moment > 253402300799) return Cat({moment, " s after 1970"});  // beyond the year 9999
  const int64_t days = moment / kDay + 719468;  // since 0000-03-01: the leap day is a year's last
  const int64_t day_of_era = days % kEra;
  const int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t month_from_march = (5 * day_of_year + 2) / 153;
  const int64_t day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
  const int64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
  const int64_t year = days / kEra * 400 + year_of_era + (month <= 2 ? 1 : 0);
  const auto two = [](int64_t number) { return (number < 10 ? "0" : "") + std::to_string(number); };
  const int64_t minute = moment % kDay / 60;
  return Cat({year, "-", two(month), "-", two(day), " ", two(minute / 60), ":", two(minute % 60), " UTC"});
}

[[noreturn]] void Expired(const std::string& what, int64_t expires, int64_t now) {
  Throw(EDGE_REFUSED, "expired", {what, " expired at ", Day(expires), ", and this board's clock says ", Day(now)});
}

Release ReadStatement(std::string_view bytes, const Envelope& envelope) {
  const Json json = ReadJson(envelope.payload, kStatement);
  const Node node(json, kStatement);
  node.Exactly("_type predicateType subject predicate");
  if (node["_type"].Text(kMostName) != "https://in-toto.io/Statement/v1") node["_type"].Refuse("is unknown");
  const std::string& type = node["predicateType"].Text(kMostName);
  if (type != kOfWholes && type != kByParts) node["predicateType"].Refuse("is unknown");
  Release release{};
  release.envelope = bytes;
  Sha256 sha256;
  sha256.Add(envelope.payload.data(), envelope.payload.size());
  release.statement = sha256.Digest();
  ReadPredicate(node["predicate"], node["subject"], type == kByParts, &release);
  return release;
}

}  // namespace

Release ReadKept(std::string_view bytes) { return ReadStatement(bytes, ReadEnvelope(bytes)); }

Release ReadRelease(std::string_view bytes, const Trust& trust, int64_t now) {
  if (now > trust.expires) Expired(Cat({"trust ", trust.version}), trust.expires, now);
  const Envelope envelope = ReadEnvelope(bytes);
  RequireSigned(envelope, kReleaseType, trust.release, "the release");
  Release release = ReadStatement(bytes, envelope);
  if (now > release.expires) Expired(Cat({release.app, " ", release.version.text()}), release.expires, now);
  if (now < release.issued - kClockTolerance) {
    Throw(EDGE_REFUSED, "clock", {"this board's clock says ", Day(now), ", and ", release.app, " ", release.version.text(), " was made at ",
                       Day(release.issued), ": set the clock"});
  }
  return release;
}

}  // namespace edge::field
