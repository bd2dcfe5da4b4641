// What depends on the architecture: a folder beside this file has the functions for each, and CMake compiles one of
// them (arch.cmake). docs/howto/add-an-architecture.md says what a new one needs.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace edge::arch {

extern const char* const kName;  // as in toolchain/architectures/table.py
extern const int kElfMachine;    // EM_… of <elf.h>

// Features of this CPU by Linux's names, as the table's `features` have them.
std::vector<std::string> CpuFeatures();
// LLVM's name of a CPU's core, "unknown", or "x86" where cores have no names.
std::string CoreName(int cpu);
// Maker and family of the CPU, which say what its units are; nullopt where cores have names.
std::optional<std::string> Family();
// What a thread does between two looks at what it waits for.
void Pause();

}  // namespace edge::arch
