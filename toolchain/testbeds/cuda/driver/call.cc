#include "call.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "context.h"

namespace emulated {
namespace {

struct Fault {
  std::string name;
  int result;      // kHang: it never returns
  unsigned which;  // 0: each call
  unsigned calls = 0;
};
constexpr int kHang = -1;

std::recursive_mutex& Lock() {
  static auto* lock = new std::recursive_mutex;
  return *lock;
}

std::vector<Fault> ReadFaults() {
  std::vector<Fault> faults;
  const char* words = std::getenv("EDGE_CUDA_FAULT");
  for (std::string rest = words ? words : ""; !rest.empty();) {
    const auto comma = rest.find(',');
    const std::string one = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    const auto first = one.find(':');
    if (first == std::string::npos) continue;
    const auto second = one.find(':', first + 1);
    const std::string what = one.substr(first + 1, second == std::string::npos ? second : second - first - 1);
    faults.push_back({one.substr(0, first), what == "hang" ? kHang : std::atoi(what.c_str()),
                      second == std::string::npos ? 0u : static_cast<unsigned>(std::atoi(one.c_str() + second + 1))});
  }
  return faults;
}

int Injected(const char* name) {
  static auto& faults = *new std::vector<Fault>(ReadFaults());
  for (Fault& fault : faults) {
    if (fault.name != name) continue;
    ++fault.calls;
    if (fault.which == 0 || fault.calls == fault.which) return fault.result;
  }
  return 0;
}

void Write(const std::string& line) {
  static const int file = [] {
    const char* path = std::getenv("EDGE_CUDA_LOG");
    return path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
  }();
  if (file >= 0 && write(file, line.data(), line.size()) < 0) std::perror("emulated CUDA: EDGE_CUDA_LOG");
}

std::string Quoted(const char* words) {
  std::string text = "\"";
  for (const char* at = words; *at; ++at) {
    if (*at == '"' || *at == '\\') text += '\\';
    text += static_cast<unsigned char>(*at) < 0x20 ? ' ' : *at;
  }
  return text + '"';
}

// After these a process cannot use its context any more (CUDA's reference of CUresult says so for each).
bool Sticky(CUresult result) {
  return result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_LAUNCH_TIMEOUT ||
         (result >= CUDA_ERROR_ASSERT && result <= CUDA_ERROR_LAUNCH_FAILED) ||
         result == CUDA_ERROR_ECC_UNCORRECTABLE;
}

}  // namespace

Field::Field(const char* name, const char* value) : name(name), json(Quoted(value)) {}

Call::Call(const char* name, Needs needs, std::initializer_list<Field> fields) {
  Lock().lock();
  line_ = std::string("{\"call\": ") + Quoted(name);
  for (const Field& field : fields) Tell(field);
  const int injected = Injected(name);
  if (injected == kHang) {
    Write(line_ + ", \"hangs\": true}\n");
    Lock().unlock();
    for (;;) pause();
  }
  if (injected != 0) {
    result_ = static_cast<CUresult>(injected);
  } else if (needs != Needs::kNothing && !Initialised()) {
    result_ = CUDA_ERROR_NOT_INITIALIZED;
  } else if (needs == Needs::kContext) {
    const Context* context = CurrentContext();
    result_ = context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : context->failed;
  }
}

Call::~Call() {
  Write(line_ + ", \"result\": " + std::to_string(result_) + "}\n");
  Lock().unlock();
}

CUresult Call::End(CUresult result) {
  Context* context = CurrentContext();
  if (context != nullptr && Sticky(result)) context->failed = result;
  return result_ = result;
}

void Call::Tell(const Field& field) { line_ += ", " + Quoted(field.name.c_str()) + ": " + field.json; }

const char* NameOf(CUresult result) {
  switch (result) {
#define ROW(name, code, words) \
  case CUDA_##name:            \
    return "CUDA_" #name;
    EMULATED_RESULTS(ROW)
#undef ROW
  }
  return nullptr;
}

void Say(const std::string& words) {
  std::fprintf(stderr, "emulated CUDA: %s\n", words.c_str());
  Write("{\"says\": " + Quoted(words.c_str()) + "}\n");
}

}  // namespace emulated
