#include "offline/plan.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>

#include "edge_rt.h"
#include "failure.h"
#include "file.h"
#include "machine.h"
#include "sha256.h"
#include "text.h"

namespace edge::offline {
namespace {

constexpr int64_t kMostPlan = 16 << 20, kMostMember = int64_t{1} << 30, kMostTotal = int64_t{4} << 30;
constexpr size_t kMostName = 100, kMostOperands = 64, kMostSteps = 2000;
constexpr double kMostSeconds = 86400;

// Reads a file in parts.
template <typename Part>
void EachPart(const std::string& path, int64_t most, Part part) {
  const File file(path);
  if (file.fd() < 0) RefuseFolder(path + " cannot be read: " + std::strerror(errno));
  if (file.Size() < 0) RefuseFolder(path + " is not a file");
  if (file.Size() > most) RefuseFolder(path + " has more than " + std::to_string(most) + " bytes");
  std::vector<char> bytes(64 << 10);
  for (int64_t left = most + 1; left > 0;) {
    const ssize_t got = read(file.fd(), bytes.data(), std::min<int64_t>(bytes.size(), left));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) RefuseFolder(path + " cannot be read: " + std::strerror(errno));
    if (got == 0) return;
    part(bytes.data(), static_cast<size_t>(got));
    left -= got;
  }
  RefuseFolder(path + " grows while it is read");
}

// The words of one line; each is taken by what it must be.
class Line {
 public:
  Line(const std::string& text, int number) : number_(number), words_(Words(text)) {
    std::string again;
    for (const std::string& word : words_) again += (again.empty() ? "" : " ") + word;
    if (again != text || text.find_first_not_of(kPrintable) != text.npos) Wrong("it has other than words and single blanks");
  }
  [[noreturn]] void Wrong(const std::string& why) const {
    RefuseFolder("the plan's line " + std::to_string(number_) + ": " + why);
  }

  bool Is(const char* word) const { return !words_.empty() && words_[0] == word; }
  // The line's first word, and how many follow it.
  void Begin(const char* word, size_t count) {
    if (!Is(word) || words_.size() != count + 1) Wrong(std::string("it is no line `") + word + "`");
    at_ = 1;
  }
  const std::string& Word(size_t most = kMostName) {
    const std::string& word = words_[at_++];
    if (word.size() > most) Wrong("a word is too long");
    return word;
  }
  const std::string& Ahead() const { return words_[at_]; }
  std::string Optional(size_t most = kMostName) {
    const std::string word = Word(most);
    return word == "-" ? "" : word;
  }
  const std::string& Digest() {
    const std::string& word = Word();
    if (!IsDigest(word)) Wrong("no digest where one must be");
    return word;
  }
  int64_t Integer(int64_t least, int64_t most) {
    const std::string& word = Word();
    int64_t value = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (code != std::errc() || end != word.data() + word.size() || value < least || value > most) {
      Wrong(word + " is no number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return value;
  }
  double Real(double most) {
    const std::string& word = Word();
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (*end != '\0' || !std::isfinite(value) || value < 0 || value > most) Wrong(word + " is no number up to " + JsonNumber(most));
    return value;
  }
  std::vector<int64_t> Shape() {
    std::vector<int64_t> shape;
    const std::string text = Optional(400);
    if (text.starts_with("x") || text.ends_with("x") || text.find("xx") != text.npos) Wrong("no shape");
    for (const std::string& extent : Split(text, 'x')) {
      int64_t value = 0;
      const auto [end, code] = std::from_chars(extent.data(), extent.data() + extent.size(), value);
      if (code != std::errc() || end != extent.data() + extent.size() || value < 0 || shape.size() == kMostAxes) Wrong("no shape");
      shape.push_back(value);
    }
    return shape;
  }

 private:
  static constexpr const char* kPrintable =
      "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~ ";
  static std::vector<std::string> Words(const std::string& text) { return Split(text, ' '); }

  int number_;
  std::vector<std::string> words_;
  size_t at_ = 0;
};

class Reader {
 public:
  Reader(Plan* plan, const std::string& text) : plan_(plan), text_(text) {}

  void Read() {
    CheckVersion();
    CheckDigest();
    ReadHead();
    while (Next().Is("member")) ReadMember();
    while (line_->Is("candidate") || line_->Is("probe")) ReadCandidate();
    line_->Begin("end", 1);
    if (line_->Integer(1, 1 << 20) != static_cast<int64_t>(plan_->candidates.size())) line_->Wrong("there are others");
    Next().Begin("digest", 1);
    if (at_ != text_.size()) line_->Wrong("it is the last one, and more follows");
  }

 private:
  Line& Next() {
    const size_t end = text_.find('\n', at_);
    if (end == text_.npos) RefuseFolder("the plan ends in the middle of line " + std::to_string(number_ + 1));
    line_ = std::make_unique<Line>(text_.substr(at_, end - at_), ++number_);
    at_ = end + 1;
    return *line_;
  }

  // Before anything else is looked at: of another version all may be different.
  void CheckVersion() const {
    const std::string first = text_.substr(0, text_.find('\n'));
    if (!first.starts_with("edge-toolchain-plan ")) {
      RefuseFolder((plan_->folder.empty() ? "this" : plan_->folder) + " holds no plan: `toolchain tune --export` writes one");
    }
    if (first != "edge-toolchain-plan 3") {
      RefuseFolder("the plan has version " + Quote(first.substr(20, 20)) + ", this edge-rt reads version 3: export it again");
    }
  }

  void CheckDigest() {
    const size_t begin = text_.rfind("\ndigest ");
    if (begin == text_.npos) RefuseFolder("the plan is cut: it has no line `digest`");
    Sha256 sum;
    sum.Add(text_.data(), begin + 1);
    plan_->digest = sum.Digest();
    if (text_.substr(begin + 8) != plan_->digest + "\n") RefuseFolder("the plan was changed: it has another digest than it says");
  }

  void ReadHead() {
    Next();
    Next().Begin("runtime", 1);
    if (const std::string& wanted = line_->Word(); wanted != Fingerprint()) {
      RefuseFolder("the candidates are for edge-rt " + wanted + ", this one is " + Fingerprint() +
             ": take the edge-rt of the version that exported them");
    }
    Next().Begin("compute", 4);
    plan_->device = line_->Word();
    plan_->threads = static_cast<int>(line_->Integer(1, 1024));
    plan_->cluster = line_->Optional();
    plan_->requirements = line_->Optional(4000);
    Next().Begin("samples", 3);
    plan_->number = static_cast<int>(line_->Integer(1, 1 << 20));
    plan_->repeat = static_cast<int>(line_->Integer(1, 1000));
    plan_->min_repeat_ms = static_cast<int>(line_->Integer(0, 1 << 20));
  }

  void ReadMember() {
    line_->Begin("member", 2);
    const std::string digest = line_->Digest();
    const int64_t bytes = line_->Integer(0, kMostMember);
    if ((total_ += bytes) > kMostTotal) line_->Wrong("the members are too large");
    if (!members_.insert(digest).second) line_->Wrong("this member was listed before");
    Sha256 sum;
    EachPart(plan_->Member(digest), bytes, [&](const char* data, size_t size) { sum.Add(data, size); });
    if (sum.Digest() != digest) {
      RefuseFolder(plan_->Member(digest) + " was changed or cut: it has another digest; copy the folder again");
    }
  }

  // `needed`: it may not be "-", for none.
  std::string Member(bool needed = true) {
    if (!needed && line_->Ahead() == "-") return line_->Optional();
    const std::string& digest = line_->Digest();
    if (members_.count(digest) == 0) line_->Wrong("no such member");
    return digest;
  }

  void ReadCandidate() {
    const bool probe = line_->Is("probe");
    if (probe && !plan_->candidates.empty()) line_->Wrong("a probe comes first");
    line_->Begin(probe ? "probe" : "candidate", 6);
    Candidate candidate;
    candidate.digest = line_->Digest();
    if (!digests_.insert(candidate.digest).second) line_->Wrong("this candidate stands there twice");
    candidate.name = line_->Word();
    candidate.limit_s = line_->Real(kMostSeconds);
    candidate.library = Member();
    candidate.function = line_->Optional();
    candidate.memory = line_->Word();
    plan_->probed |= probe;
    Next();
    while (line_->Is("case")) {
      line_->Begin("case", 0);
      candidate.cases.push_back(ReadCase());
    }
    if (candidate.cases.empty()) line_->Wrong("a candidate without a case");
    plan_->candidates.push_back(std::move(candidate));
  }

  // `drawn`: bytes of what a case draws.
  Operand ReadOperand(int64_t* drawn) {
    Operand operand{};
    const bool stored = line_->Is("stored");
    line_->Begin(stored ? "stored" : "drawn", stored ? 2 : 6);
    if (stored) {
      operand.member = Member();
    } else {
      operand.drawn.dtype = line_->Word();
      if (operand.drawn.dtype != "float32" && operand.drawn.dtype != "float16") line_->Wrong("this type is not drawn");
      operand.drawn.shape = line_->Shape();
      operand.seed = line_->Integer(0, int64_t{1} << 48);
      operand.exponent = static_cast<int>(line_->Integer(-16, 8));
      operand.edges = line_->Integer(0, 1) == 1;
    }
    operand.steps = line_->Optional(kMostSteps);
    if (stored) return operand;
    Array shape = operand.drawn;
    if ((*drawn += Pack(operand.steps, &shape)) > kMostTotal) line_->Wrong("the operands are too large");
    return operand;
  }

  Case ReadCase() {
    Case read;
    int64_t drawn = 0;
    while (Next().Is("stored") || line_->Is("drawn")) {
      read.inputs.push_back(ReadOperand(&drawn));
      if (read.inputs.size() > kMostOperands) line_->Wrong("too many inputs");
    }
    for (; line_->Is("output"); Next()) {
      line_->Begin("output", 5);
      Output output;
      output.dtype = line_->Word();
      output.shape = line_->Shape();
      output.expected = Member(false);
      output.tolerance = line_->Real(1);
      output.halves = line_->Real(1);
      read.outputs.push_back(std::move(output));
      if (read.outputs.size() > kMostOperands) line_->Wrong("too many outputs");
    }
    if (read.outputs.empty()) line_->Wrong("a case without outputs");
    return read;
  }

  Plan* plan_;
  const std::string& text_;
  size_t at_ = 0;
  int number_ = 0;
  int64_t total_ = 0;
  std::unique_ptr<Line> line_;
  std::set<std::string> members_, digests_;
};

}  // namespace

void RefuseFolder(const std::string& why) { throw Failure(EDGE_USAGE, "folder", why); }

bool IsDigest(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

Plan ParsePlan(const std::string& text, const std::string& members) {
  if (text.size() > static_cast<size_t>(kMostPlan)) RefuseFolder("the plan has more than " + std::to_string(kMostPlan) + " bytes");
  Plan plan{};
  plan.members = members;
  Reader(&plan, text).Read();
  return plan;
}

Plan ReadPlan(const std::string& folder) {
  Plan plan{};
  plan.folder = folder;
  plan.members = folder + "/members";
  std::string text;
  EachPart(folder + "/plan", kMostPlan, [&](const char* data, size_t size) { text.append(data, size); });
  Reader(&plan, text).Read();
  return plan;
}

}  // namespace edge::offline
