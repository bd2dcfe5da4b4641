#ifndef __riscv
#error "this folder is RISC-V's, and the compiler makes code for another architecture: add src/arch/NAME for it"
#endif

#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "arch/arch.h"
#include "text.h"

namespace edge::arch {
namespace {

// A value of /proc/cpuinfo in the paragraph of a CPU; empty where there is none.
std::string Value(int cpu, const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  bool mine = false;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (colon == line.npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("processor")) mine = std::atoi(value.c_str()) == cpu;
    if (mine && line.starts_with(key)) return value;
  }
  return "";
}

}  // namespace

const char* const kName = "riscv64";
const int kElfMachine = EM_RISCV;

// "rv64imafdcv_zicsr_zba": a letter for each of the oldest extensions, then words.
std::vector<std::string> CpuFeatures() {
  std::vector<std::string> features = Split(Value(0, "isa"), '_');
  if (features.empty() || !features[0].starts_with("rv64")) return {};
  const std::string letters = features[0].substr(4);
  features.erase(features.begin());
  for (char letter : letters) features.emplace_back(1, letter);
  return features;
}

// "spacemit,x60" is LLVM's spacemit-x60.
std::string CoreName(int cpu) {
  std::string name = Value(cpu, "uarch");
  std::replace(name.begin(), name.end(), ',', '-');
  return name.empty() ? "unknown" : name;
}

std::optional<std::string> Family() { return std::nullopt; }

void Pause() { asm volatile(".insn i 0x0F, 0, x0, x0, 0x010"); }  // `pause`, which older cores take for a fence

}  // namespace edge::arch
