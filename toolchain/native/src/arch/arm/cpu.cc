#ifndef __arm__
#error "this folder is 32-bit Arm's, and the compiler makes code for another architecture: add src/arch/NAME for it"
#endif

#include <elf.h>

#include <cstdlib>
#include <fstream>

#include "arch/arch.h"
#include "arch/arm_cores.h"

namespace edge::arch {

const char* const kName = "armv7a";
const int kElfMachine = EM_ARM;

// Linux, arch/arm/include/uapi/asm/hwcap.h and arch/arm/kernel/setup.c.
static const char* const kHwcap[] = {
    "swp",   "half",     "thumb", "26bit",   "fastmult", "fpa",   "vfp",    "edsp",
    "java",  "iwmmxt",   "crunch", "thumbee", "neon",    "vfpv3", "vfpv3d16", "tls",
    "vfpv4", "idiva",    "idivt", "vfpd32",  "lpae",     "evtstrm", "fphp", "asimdhp",
    "asimddp", "asimdfhm", "asimdbf16", "i8mm"};
static const char* const kHwcap2[] = {"aes", "pmull", "sha1", "sha2", "crc32", "sb", "ssbs"};

std::vector<std::string> CpuFeatures() { return FeaturesOf(kHwcap, kHwcap2); }

// 32-bit kernels show the register in /proc/cpuinfo alone, in a paragraph for each CPU.
std::string CoreName(int cpu) {
  std::ifstream file("/proc/cpuinfo");
  unsigned long implementer = 0;
  bool mine = false;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const unsigned long value = std::strtoul(line.c_str() + colon + 1, nullptr, 0);
    if (line.starts_with("processor")) mine = value == static_cast<unsigned long>(cpu);
    if (mine && line.starts_with("CPU implementer")) implementer = value;
    if (mine && line.starts_with("CPU part")) return PartName(implementer, value);
  }
  return "unknown";
}

std::optional<std::string> Family() { return std::nullopt; }

void Pause() { asm volatile("yield"); }

}  // namespace edge::arch
