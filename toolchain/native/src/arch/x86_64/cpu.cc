#ifndef __x86_64__
#error "this folder is x86-64's, and the compiler makes code for another architecture: add src/arch/NAME for it"
#endif

#include <cpuid.h>
#include <elf.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "arch/arch.h"
#include "text.h"

namespace edge::arch {

const char* const kName = "x86_64";
const int kElfMachine = EM_X86_64;

std::vector<std::string> CpuFeatures() {
  std::vector<std::string> features;
  // Without memory it would seem a CPU without features, and every network made for another.
  errno = 0;
  FILE* file = std::fopen("/proc/cpuinfo", "re");
  if (file == nullptr && errno == ENOMEM) throw std::bad_alloc();
  if (file == nullptr) return features;
  char* line = nullptr;
  size_t room = 0;
  while (getline(&line, &room, file) > 0) {
    const char* colon = std::strchr(line, ':');
    if (std::strncmp(line, "flags", 5) != 0 || colon == nullptr) continue;
    std::string flags = colon + 1;
    flags.erase(flags.find_last_not_of('\n') + 1);
    features = Split(flags, ' ');
    break;
  }
  const bool without_memory = features.empty() && errno == ENOMEM;
  std::free(line);
  std::fclose(file);
  if (without_memory) throw std::bad_alloc();
  return features;
}

std::string CoreName(int) { return "x86"; }

// "AuthenticAMD 26" is Zen 5.
std::optional<std::string> Family() {
  unsigned eax, words[3], ignored[3];
  if (__get_cpuid(0, &eax, &words[0], &words[2], &words[1]) == 0) return std::nullopt;
  const std::string maker(reinterpret_cast<const char*>(words), sizeof words);
  if (__get_cpuid(1, &eax, &ignored[0], &ignored[1], &ignored[2]) == 0) return std::nullopt;
  // Intel 64 and IA-32 Architectures Software Developer's Manual, CPUID, leaf 1.
  const unsigned family = eax >> 8 & 15;
  return maker + " " + std::to_string(family == 15 ? family + (eax >> 20 & 255) : family);
}

void Pause() { __builtin_ia32_pause(); }

}  // namespace edge::arch
