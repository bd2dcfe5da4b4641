#include "cpu.h"

#include <link.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>

#include "arch/arch.h"
#include "edge_rt.h"
#include "failure.h"
#include "file.h"
#include "pool.h"
#include "text.h"

namespace edge {

std::vector<Cpu> Cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  std::vector<Cpu> cpus;
  for (int id = 0; id < CPU_SETSIZE; ++id) {
    if (!CPU_ISSET(id, &allowed)) continue;
    // The first of its siblings names a core (core_id repeats in each cluster of an Arm board);
    // without a topology each CPU counts as a core of its own.
    auto siblings = FirstLine("/sys/devices/system/cpu/cpu" + std::to_string(id) +
                              "/topology/thread_siblings_list");
    const auto first = LeadingNumber(siblings.value_or(""), CPU_SETSIZE);
    cpus.push_back({id, arch::CoreName(id), static_cast<int>(first.value_or(id))});
  }
  return cpus;
}

int PhysicalCores(const std::vector<Cpu>& cpus) {
  std::set<int> cores;
  for (const Cpu& cpu : cpus) cores.insert(cpu.physical);
  return static_cast<int>(cores.size());
}

Placement Place(int threads, const std::string& cluster) {
  // Taken before anything is bound: a later library in this process sees the same machine.
  static const std::vector<Cpu> all = Cpus();
  std::vector<Cpu> cpus;
  for (const Cpu& cpu : all) {
    if (cluster.empty() || cpu.core == cluster) cpus.push_back(cpu);
  }
  if (threads == 0) threads = std::max(1, PhysicalCores(cpus.empty() ? all : cpus));
  Placement placement{threads, {}};
  const bool siblings = threads > PhysicalCores(cpus);
  std::set<int> taken;
  for (const Cpu& cpu : cpus) {
    if (taken.insert(cpu.physical).second || siblings) placement.cpus.push_back(cpu.id);
  }
  return placement;
}

void Apply(const Placement& placement, int spin_us) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (int cpu : placement.cpus) CPU_SET(cpu, &mask);
  // The pool's threads, which start later, inherit the mask.
  if (!placement.cpus.empty() && sched_setaffinity(0, sizeof(mask), &mask) != 0) {
    throw Io("cannot choose CPUs");
  }
  sched_getaffinity(0, sizeof(mask), &mask);
  // A thread that waits awake keeps its CPU from another that has work.
  const bool crowded = placement.threads > CPU_COUNT(&mask);
  ConfigurePool(placement.threads, crowded ? 0 : spin_us);
}

void CheckFeatures(const std::string& features) {
  const std::vector<std::string> present = arch::CpuFeatures();
  std::vector<std::string> missing;
  std::string words;
  for (const std::string& feature : Split(features, ',')) {
    if (std::count(present.begin(), present.end(), feature) != 0) continue;
    missing.push_back(feature);
    words += (words.empty() ? "" : ", ") + feature;
  }
  if (missing.empty()) return;
  throw Failure(EDGE_REQUIRES, "requires", "this CPU lacks what the library needs: " + words,
                ", \"missing\": " + JsonArray(missing));
}

constexpr int kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;

static std::string MachineName(int machine) {
  switch (machine) {
    case EM_X86_64: return "x86_64";
    case EM_AARCH64: return "aarch64";
    case EM_ARM: return "arm";
    case EM_386: return "i386";
    default: return machine == arch::kElfMachine ? arch::kName : "ELF machine " + std::to_string(machine);
  }
}

void CheckLibrary(const std::string& path) {
  const File file(path);
  if (file.fd() < 0) throw Io("cannot open " + path);
  const int64_t size = file.Size();
  ElfW(Ehdr) header{};
  if (size < 0 || pread(file.fd(), &header, sizeof(header), 0) != sizeof(header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    throw Failure(EDGE_FAILED, "load", path + " is not a shared library (no ELF header)");
  }
  if (header.e_type != ET_DYN) {
    throw Failure(EDGE_FAILED, "load", path + " is an ELF file, but no shared library");
  }
  if (header.e_ident[EI_CLASS] != kClass || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != arch::kElfMachine) {
    throw Failure(EDGE_FAILED, "machine", path + " is built for " + MachineName(header.e_machine) +
                                              ", this machine is " + MachineName(arch::kElfMachine));
  }
  // The loader maps what is not there, and the first touch of it ends the process.
  for (int i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment{};
    const uint64_t at = uint64_t{header.e_phoff} + i * sizeof(segment);
    const bool there = at < static_cast<uint64_t>(size) &&
                       pread(file.fd(), &segment, sizeof(segment), at) == sizeof(segment);
    if (!there || segment.p_offset > static_cast<uint64_t>(size) ||
        segment.p_filesz > static_cast<uint64_t>(size) - segment.p_offset) {
      throw Failure(EDGE_FAILED, "load", path + " is cut off; was the disk full when it was copied?");
    }
  }
}

}  // namespace edge
