#ifndef __aarch64__
#error "this folder is AArch64's, and the compiler makes code for another architecture: add src/arch/NAME for it"
#endif

#include <elf.h>

#include <cstdlib>

#include "arch/arch.h"
#include "arch/arm_cores.h"
#include "text.h"

namespace edge::arch {

const char* const kName = "aarch64";
const int kElfMachine = EM_AARCH64;

// Linux, arch/arm64/include/uapi/asm/hwcap.h and arch/arm64/kernel/cpuinfo.c.
static const char* const kHwcap[] = {
    "fp",    "asimd",  "evtstrm", "aes",    "pmull",   "sha1",   "sha2",  "crc32",
    "atomics", "fphp", "asimdhp", "cpuid",  "asimdrdm", "jscvt", "fcma",  "lrcpc",
    "dcpop", "sha3",   "sm3",     "sm4",    "asimddp", "sha512", "sve",   "asimdfhm",
    "dit",   "uscat",  "ilrcpc",  "flagm",  "ssbs",    "sb",     "paca",  "pacg"};
static const char* const kHwcap2[] = {
    "dcpodp",  "sve2",  "sveaes",  "svepmull", "svebitperm", "svesha3", "svesm4", "flagm2",
    "frint",   "svei8mm", "svef32mm", "svef64mm", "svebf16", "i8mm",    "bf16",   "dgh",
    "rng",     "bti",   "mte",     "ecv",      "afp",        "rpres",   "mte3",   "sme"};

std::vector<std::string> CpuFeatures() { return FeaturesOf(kHwcap, kHwcap2); }

// MIDR_EL1: implementer in bits 31..24, part number in bits 15..4.
std::string CoreName(int cpu) {
  auto line = FirstLine("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                        "/regs/identification/midr_el1");
  if (!line) return "unknown";
  const unsigned long midr = std::strtoul(line->c_str(), nullptr, 16);
  return PartName(midr >> 24 & 0xff, midr >> 4 & 0xfff);
}

std::optional<std::string> Family() { return std::nullopt; }

void Pause() { asm volatile("yield"); }

}  // namespace edge::arch
