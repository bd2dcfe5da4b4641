// The CPUs of this machine: features, cores, and where threads shall run.
#pragma once

#include <string>
#include <vector>

namespace edge {

struct Cpu {
  int id;
  std::string core;  // LLVM's name, "x86" or "unknown"
  int physical;      // CPUs of one physical core share this number
};

struct Placement {
  int threads;
  std::vector<int> cpus;  // empty: not bound
};

// Those that this process may use.
std::vector<Cpu> Cpus();
int PhysicalCores(const std::vector<Cpu>& cpus);

// threads 0: one for each physical core. An unknown cluster leaves the threads unbound.
Placement Place(int threads, const std::string& cluster);
// Binds this process, and the pool's threads that it will start, to the placement.
void Apply(const Placement& placement, int spin_us);

// Throws EDGE_REQUIRES when a feature of the comma-separated list is missing.
void CheckFeatures(const std::string& features);
// Throws when the file is no shared library for this machine.
void CheckLibrary(const std::string& path);

}  // namespace edge
