// The compiled code in what a library embeds for CUDA. TVM's own part names the kernels; its code is a container
// of ours, little-endian:
//
//   "EDGECUDA", u32 version (1), u32 number of units; for each unit
//     u32 number of kernels, each a name: u32 length, bytes;
//     u32 number of codes, each: u32 arch (90 for sm_90; 0: for the emulated driver), u32 version of CUDA that
//     compiled it (13000 for 13.0), u64 size, bytes;
//   u32 length, comment.
//
// A unit's kernels were compiled together. A code is an ELF file: a cubin, or for arch 0 a shared object.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/devices.h"
#include "embedded.h"

namespace edge::cuda {

constexpr const char* kLanguage = "CUDA";

struct Code {
  int arch;
  int cuda;  // version of the compiler
  std::string_view image;
};

struct Unit {
  std::vector<std::string> kernels;
  std::vector<Code> codes;
};

struct LibraryCode {
  std::map<std::string, KernelForm> kernels;  // by the names that compiled code calls them by
  std::vector<Unit> units;  // those that have kernels
  std::string comment;      // what the kernels compute
};

// The images lie in `bytes`. Throws where it is damaged, or no such container.
LibraryCode ReadCode(std::string_view bytes);

// The code of a unit that a device runs best: of its own major capability, and the highest minor one that is not
// above its own (a Tegra's GPU: of its own capability); a null pointer if there is none, or if its driver is too old
// for it: `problem` says which, and what to do.
const Code* CodeFor(const Unit& unit, const CuDevice& device, std::string* problem);

}  // namespace edge::cuda
