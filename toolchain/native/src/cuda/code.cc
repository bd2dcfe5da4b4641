#include "cuda/code.h"

#include <elf.h>
#include <tvm/ffi/error.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "cuda/gpu.h"
#include "text.h"

namespace edge::cuda {
namespace {

constexpr std::string_view kMagic = "EDGECUDA";
constexpr uint32_t kVersion = 1;

[[noreturn]] void Damaged(const std::string& what) {
  Fail(Cat({"the library's code is damaged: ", what, "; was it all copied?"}));
}

// Whether bytes lie in a file.
bool Within(std::string_view file, uint64_t offset, uint64_t bytes) {
  return offset <= file.size() && bytes <= file.size() - offset;
}

template <typename T>
std::optional<T> At(std::string_view file, uint64_t offset) {
  if (!Within(file, offset, sizeof(T))) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

// Drivers are given an address without a size: they believe what an image says of itself.
bool IsWhole(std::string_view image) {
  const auto header = At<Elf64_Ehdr>(image, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_shoff == 0) {
    return false;
  }
  for (uint32_t i = 0; i < header->e_phnum; ++i) {
    const auto part = At<Elf64_Phdr>(image, header->e_phoff + uint64_t{i} * sizeof(Elf64_Phdr));
    if (!part || !Within(image, part->p_offset, part->p_filesz)) return false;
  }
  for (uint32_t i = 0; i < header->e_shnum; ++i) {
    const auto part = At<Elf64_Shdr>(image, header->e_shoff + uint64_t{i} * sizeof(Elf64_Shdr));
    if (!part || (part->sh_type != SHT_NOBITS && !Within(image, part->sh_offset, part->sh_size))) return false;
  }
  return true;
}

struct Container {
  Blob in;

  template <typename T>
  T Take() {
    T value;
    if (!in.Read(&value)) Damaged("it ends too early");
    return value;
  }

  std::string_view TakeBytes(uint64_t size) {
    const std::string_view bytes = in.Take(size);
    if (bytes.size() != size) Damaged("it ends too early");
    return bytes;
  }

  // Errors have it in their words.
  std::string TakeName() {
    const std::string_view name = TakeBytes(Take<uint32_t>());
    const auto odd = [](char each) { return each != '_' && std::isalnum(static_cast<unsigned char>(each)) == 0; };
    if (name.empty() || std::any_of(name.begin(), name.end(), odd)) Damaged("a kernel's name is none");
    return std::string(name);
  }

  Unit TakeUnit() {
    Unit unit;
    for (auto names = Take<uint32_t>(); names > 0; --names) unit.kernels.push_back(TakeName());
    for (auto codes = Take<uint32_t>(); codes > 0; --codes) {
      Code code{};
      code.arch = static_cast<int>(Take<uint32_t>());
      code.cuda = static_cast<int>(Take<uint32_t>());
      code.image = TakeBytes(Take<uint64_t>());
      if (!IsWhole(code.image)) Damaged(Cat({"its code for ", ArchName(code.arch), " is cut or no code"}));
      unit.codes.push_back(code);
    }
    return unit;
  }
};

void ReadContainer(std::string_view bytes, LibraryCode* code) {
  if (!bytes.starts_with(kMagic)) {
    Fail("the library holds CUDA source, which nothing here compiles: build it again with `toolchain build`, "
         "which embeds compiled code");
  }
  Container container{Blob(bytes.substr(kMagic.size()))};
  if (const auto version = container.Take<uint32_t>(); version != kVersion) {
    Fail(Cat({"the library's code has format ", version, ", this edge-rt reads format ", kVersion,
              ": build it again, or update edge-rt"}));
  }
  for (auto count = container.Take<uint32_t>(); count > 0; --count) {
    Unit unit = container.TakeUnit();
    if (!unit.kernels.empty()) code->units.push_back(std::move(unit));
  }
  code->comment = container.TakeBytes(container.Take<uint32_t>());
  if (container.in.left() != 0) Damaged("it goes on behind its end");
}

void CheckKernels(const LibraryCode& code) {
  std::set<std::string> compiled;
  for (const Unit& unit : code.units) {
    for (const std::string& kernel : unit.kernels) {
      if (!compiled.insert(kernel).second) Damaged(Cat({"it has kernel ", kernel, " twice"}));
    }
  }
  for (const auto& [key, form] : code.kernels) {
    if (compiled.count(form.name) == 0) Damaged("it has no code of kernel " + form.name);
  }
}

// Code is made for GPUs from here on.
constexpr int kOldest = 80;

// GPUs inside of Tegra chips: Orin, and Thor by its two numbers.
bool IsTegra(int arch) { return arch == 87 || arch == 101 || arch == 110; }

// Later GPUs of a generation run the code of earlier ones, but no Tegra runs other code, and none runs Tegra's (CUDA
// C++ Programming Guide, "Binary Compatibility").
bool Fits(const Code& code, const CuDevice& device) {
  if (IsTegra(code.arch) || IsTegra(device.arch())) return code.arch == device.arch();
  return code.arch / 10 == device.major && code.arch % 10 <= device.minor;
}

std::string Archs(const Unit& unit) {
  std::string names;
  for (const Code& code : unit.codes) names += (names.empty() ? "" : ", ") + ArchName(code.arch);
  return names.empty() ? "none" : names;
}

}  // namespace

LibraryCode ReadCode(std::string_view bytes) {
  Embedded embedded = ReadEmbedded(bytes, kLanguage);
  LibraryCode code;
  code.kernels = std::move(embedded.kernels);
  // Its code is the last thing: the images stay where they are in `bytes`.
  ReadContainer(bytes.substr(bytes.size() - embedded.code.size()), &code);
  CheckKernels(code);
  return code;
}

const Code* CodeFor(const Unit& unit, const CuDevice& device, std::string* problem) {
  const Code* best = nullptr;
  for (const Code& code : unit.codes) {
    if (Fits(code, device) && (best == nullptr || code.arch > best->arch)) best = &code;
  }
  if (best == nullptr) {
    *problem = Cat({"the library has no code for ", Describe(device), ": it has code for ", Archs(unit)});
    if (device.arch() == 0 || device.arch() >= kOldest) {
      *problem += Cat({"; build it with --arch ", ArchName(device.arch())});
    } else {
      *problem += Cat({"; GPUs before ", ArchName(kOldest), " are not supported"});
    }
    return nullptr;
  }
  // Compiled code runs on every driver of the same major version (CUDA Compatibility, "Minor Version
  // Compatibility"); what it may lack is said when it refuses the code.
  if (device.driver->version / 1000 < best->cuda / 1000) {
    *problem = Cat({"the library's code was compiled by CUDA ", VersionText(best->cuda), ", which is newer than ",
                    Describe(device), ": install a driver for CUDA ", best->cuda / 1000,
                    ", or build the library with the compiler of CUDA ", device.driver->version / 1000});
    return nullptr;
  }
  return best;
}

}  // namespace edge::cuda
