#include "cpu.h"

#include <link.h>
#include <sched.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <new>
#include <set>

#include "edge_rt.h"
#include "failure.h"
#include "file.h"
#include "pool.h"
#include "text.h"

namespace edge {

#if defined(__aarch64__) || defined(__arm__)
#if defined(__aarch64__)
static constexpr int kMachine = EM_AARCH64;

// Linux, arch/arm64/include/uapi/asm/hwcap.h and arch/arm64/kernel/cpuinfo.c: bit n is name n.
static const char* const kHwcap[] = {
    "fp",    "asimd",  "evtstrm", "aes",    "pmull",   "sha1",   "sha2",  "crc32",
    "atomics", "fphp", "asimdhp", "cpuid",  "asimdrdm", "jscvt", "fcma",  "lrcpc",
    "dcpop", "sha3",   "sm3",     "sm4",    "asimddp", "sha512", "sve",   "asimdfhm",
    "dit",   "uscat",  "ilrcpc",  "flagm",  "ssbs",    "sb",     "paca",  "pacg"};
static const char* const kHwcap2[] = {
    "dcpodp",  "sve2",  "sveaes",  "svepmull", "svebitperm", "svesha3", "svesm4", "flagm2",
    "frint",   "svei8mm", "svef32mm", "svef64mm", "svebf16", "i8mm",    "bf16",   "dgh",
    "rng",     "bti",   "mte",     "ecv",      "afp",        "rpres",   "mte3",   "sme"};
#else
static constexpr int kMachine = EM_ARM;

// Linux, arch/arm/include/uapi/asm/hwcap.h and arch/arm/kernel/setup.c: bit n is name n.
static const char* const kHwcap[] = {
    "swp",   "half",     "thumb", "26bit",   "fastmult", "fpa",   "vfp",    "edsp",
    "java",  "iwmmxt",   "crunch", "thumbee", "neon",    "vfpv3", "vfpv3d16", "tls",
    "vfpv4", "idiva",    "idivt", "vfpd32",  "lpae",     "evtstrm", "fphp", "asimdhp",
    "asimddp", "asimdfhm", "asimdbf16", "i8mm"};
static const char* const kHwcap2[] = {"aes", "pmull", "sha1", "sha2", "crc32", "sb", "ssbs"};
#endif

static void AddBits(unsigned long bits, const char* const* names, size_t count,
                    std::vector<std::string>* out) {
  for (size_t i = 0; i < count; ++i) {
    if (bits >> i & 1) out->push_back(names[i]);
  }
}

std::vector<std::string> CpuFeatures() {
  std::vector<std::string> features;
  AddBits(getauxval(AT_HWCAP), kHwcap, std::size(kHwcap), &features);
  AddBits(getauxval(AT_HWCAP2), kHwcap2, std::size(kHwcap2), &features);
  return features;
}

// Implementer and part number. Part numbers from Linux, arch/arm64/include/asm/cputype.h and
// arch/arm/include/asm/cputype.h (Arm's are in each core's Technical Reference Manual).
static std::string PartName(unsigned long implementer, unsigned long part) {
  static const std::map<unsigned long, const char*> kParts = {
      {0x41c05, "cortex-a5"},   {0x41c07, "cortex-a7"},    {0x41c08, "cortex-a8"},
      {0x41c09, "cortex-a9"},   {0x41c0d, "cortex-a12"},   {0x41c0e, "cortex-a17"},
      {0x41c0f, "cortex-a15"},  {0x41d01, "cortex-a32"},   {0x41d02, "cortex-a34"},
      {0x41d03, "cortex-a53"},
      {0x41d04, "cortex-a35"},  {0x41d05, "cortex-a55"},   {0x41d07, "cortex-a57"},
      {0x41d08, "cortex-a72"},  {0x41d09, "cortex-a73"},   {0x41d0a, "cortex-a75"},
      {0x41d0b, "cortex-a76"},  {0x41d0c, "neoverse-n1"},  {0x41d0d, "cortex-a77"},
      {0x41d0e, "cortex-a76ae"}, {0x41d40, "neoverse-v1"}, {0x41d41, "cortex-a78"},
      {0x41d42, "cortex-a78ae"}, {0x41d44, "cortex-x1"},   {0x41d46, "cortex-a510"},
      {0x41d47, "cortex-a710"}, {0x41d48, "cortex-x2"},    {0x41d49, "neoverse-n2"},
      {0x41d4b, "cortex-a78c"}, {0x41d4d, "cortex-a715"},  {0x41d4e, "cortex-x3"},
      {0x41d4f, "neoverse-v2"}, {0x41d80, "cortex-a520"},  {0x41d81, "cortex-a720"},
      {0x41d82, "cortex-x4"},   {0x4e004, "carmel"}};
  auto found = kParts.find(implementer << 12 | part);
  return found == kParts.end() ? "unknown" : found->second;
}

#if defined(__aarch64__)
// MIDR_EL1: implementer in bits 31..24, part number in bits 15..4.
static std::string CoreName(int id) {
  auto line = FirstLine("/sys/devices/system/cpu/cpu" + std::to_string(id) +
                        "/regs/identification/midr_el1");
  if (!line) return "unknown";
  const unsigned long midr = std::strtoul(line->c_str(), nullptr, 16);
  return PartName(midr >> 24 & 0xff, midr >> 4 & 0xfff);
}
#else
// 32-bit kernels show the register in /proc/cpuinfo alone, in a paragraph for each CPU.
static std::string CoreName(int id) {
  std::ifstream file("/proc/cpuinfo");
  unsigned long implementer = 0;
  bool mine = false;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const unsigned long value = std::strtoul(line.c_str() + colon + 1, nullptr, 0);
    if (line.starts_with("processor")) mine = value == static_cast<unsigned long>(id);
    if (mine && line.starts_with("CPU implementer")) implementer = value;
    if (mine && line.starts_with("CPU part")) return PartName(implementer, value);
  }
  return "unknown";
}
#endif
#elif defined(__x86_64__)
static constexpr int kMachine = EM_X86_64;

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

static std::string CoreName(int) { return "x86"; }
#else
#error "a machine that edge-rt doesn't know yet"
#endif

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
    cpus.push_back({id, CoreName(id), static_cast<int>(LeadingNumber(siblings.value_or(""), CPU_SETSIZE).value_or(id))});
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
  const std::vector<std::string> present = CpuFeatures();
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
    default: return "ELF machine " + std::to_string(machine);
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
      header.e_machine != kMachine) {
    throw Failure(EDGE_FAILED, "machine", path + " is built for " + MachineName(header.e_machine) +
                                              ", this machine is " + MachineName(kMachine));
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
