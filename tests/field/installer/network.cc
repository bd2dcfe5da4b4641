// A network without TVM, in place of field/compute.cc: its library.so is a word and a number. The processes that it runs in,
// crashes and hangs are real, and so is the comparison of what it computes.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "edge_rt.h"
#include "failure.h"
#include "field/disk.h"
#include "field/selftest.h"
#include "text.h"

namespace edge::field {

constexpr size_t kHunger = size_t{64} << 20;  // bytes

// "times N" multiplies its input by N; the words before it say how it fails.
Computed Compute(const std::string& folder, const Release& release, const std::string&) {
  const std::vector<std::string> words = Split(ReadSmall(folder + "/library.so", 1 << 20).value_or(""), ' ');
  const auto begin = std::chrono::steady_clock::now();
  int factor = 0;
  static std::string eaten;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "crash") raise(SIGSEGV);
    if (words[i] == "exit") _exit(3);
    if (words[i] == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
    if (words[i] == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (words[i] == "eat") eaten = std::string(kHunger, 'x');
    if (words[i] == "times" && i + 1 < words.size()) factor = std::atoi(words[i + 1].c_str());
  }
  Array array = ReadNpy(folder + "/sample/0.npy");
  for (size_t at = 0; at < array.data.size(); at += sizeof(float)) {
    float value;
    std::memcpy(&value, &array.data[at], sizeof value);
    value *= static_cast<float>(factor);
    std::memcpy(&array.data[at], &value, sizeof value);
  }
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  return {{array}, std::vector<double>(release.test.runs, us)};
}

void CheckRuntime(const Release& release, const std::string&) {
  if (release.requirements.tvm != "toy") throw Failure(EDGE_REQUIRES, "runtime", "this is no toy");
}

}  // namespace edge::field
