// Modules: files of compiled kernels, functions of them, launches.
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "api.h"
#include "call.h"
#include "stream.h"

namespace emulated {
namespace {

constexpr std::size_t kShared = 48 << 10;       // without asking (cuFuncSetAttribute)
constexpr std::size_t kMostShared = 227 << 10;  // of capability 9.0
#if defined(__x86_64__)
constexpr unsigned kMachine = EM_X86_64;
#else
constexpr unsigned kMachine = EM_AARCH64;
#endif

// Size of an ELF file in memory: it ends with its section headers, or with its last section.
std::size_t BytesOf(const Elf64_Ehdr& header, const char* image) {
  std::size_t bytes = header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, image + header.e_shoff + std::size_t{i} * header.e_shentsize, sizeof(section));
    if (section.sh_type != SHT_NOBITS) bytes = std::max<std::size_t>(bytes, section.sh_offset + section.sh_size);
  }
  return bytes;
}

// Bytes in front of the first segment that can be written: of them kernels read their constants.
std::size_t ConstantsOf(const char* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof(header));
  std::size_t bytes = 0;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, image + header.e_phoff + std::size_t{i} * header.e_phentsize, sizeof(segment));
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_flags & PF_W) break;
    bytes = segment.p_vaddr + segment.p_memsz;
  }
  return bytes;
}

void Close(Module* module) {
  if (module->library) dlclose(module->library);
  if (module->file >= 0) close(module->file);
  delete module;
}

CUresult Load(const void* image, Module** loaded) {
  Elf64_Ehdr header;
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0) return CUDA_ERROR_INVALID_IMAGE;
  std::memcpy(&header, image, sizeof(header));
  if (header.e_machine != kMachine) return CUDA_ERROR_NO_BINARY_FOR_GPU;  // a cubin is of EM_CUDA
  const std::size_t bytes = BytesOf(header, static_cast<const char*>(image));
  auto* module = new Module;
  module->context = CurrentContext();
  module->file = memfd_create("kernels", MFD_CLOEXEC);
  const char* problem = nullptr;
  if (module->file < 0 || write(module->file, image, bytes) != static_cast<ssize_t>(bytes)) {
    problem = "the unit of kernels cannot be kept in memory";
  } else {
    // The file stays open: the loader knows libraries by path, and nobody else may get this number meanwhile.
    const std::string path = "/proc/self/fd/" + std::to_string(module->file);
    module->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module->library == nullptr) problem = dlerror();
  }
  if (problem == nullptr) {
    module->unit = static_cast<const edge::Unit*>(dlsym(module->library, "edge_emulated_unit"));
    if (module->unit == nullptr) problem = "the file is no unit of kernels for the emulated driver";
    else if (module->unit->abi != edge::kKernelAbi) problem = "the unit of kernels was compiled for another version of the emulated driver";
  }
  if (problem != nullptr) {
    Say(problem);
    Close(module);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *module->unit->services = &KernelServices();
  module->constants = ConstantsOf(static_cast<const char*>(image));
  *loaded = All<Module>().Add(module);
  return CUDA_SUCCESS;
}

CUresult GetFunction(Module* module, const char* name, CUfunction* function) {
  for (const auto& known : module->functions) {
    if (known->name == name) return *function = known.get(), CUDA_SUCCESS;
  }
  for (unsigned i = 0; i < module->unit->kernels; ++i) {
    const edge::Kernel& kernel = module->unit->kernel[i];
    if (std::strcmp(kernel.name, name) != 0) continue;
    const auto shared = static_cast<std::size_t>(kernel.shared_end - kernel.shared);
    if (shared > kShared) return CUDA_ERROR_INVALID_IMAGE;  // ptxas refuses more
    const std::size_t most = kShared - shared;
    module->functions.push_back(std::make_unique<Function>(Function{module, &kernel, most, name}));
    *function = All<Function>().Add(module->functions.back().get());
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

// Copies the arguments of a launch: from pointers to them, or from one buffer in which each is aligned to its size.
bool CopyArguments(const edge::Kernel& kernel, void** pointers, void** extra, std::vector<std::vector<char>>* copied) {
  const char* buffer = nullptr;
  std::size_t size = 0;
  if (extra != nullptr) {
    constexpr std::uintptr_t kEnd = 0, kPointer = 1, kSize = 2;
    for (; reinterpret_cast<std::uintptr_t>(extra[0]) != kEnd; extra += 2) {
      const auto what = reinterpret_cast<std::uintptr_t>(extra[0]);
      if (what == kPointer) buffer = static_cast<const char*>(extra[1]);
      if (what == kSize) size = *static_cast<std::size_t*>(extra[1]);
    }
  }
  std::size_t at = 0;
  for (unsigned i = 0; i < kernel.arguments; ++i) {
    const std::size_t bytes = kernel.bytes[i];
    const char* from = nullptr;
    if (buffer != nullptr) {
      const std::size_t align = std::min<std::size_t>(bytes & (~bytes + 1), 16);
      at = (at + align - 1) / align * align;
      if (at + bytes > size) return false;
      from = buffer + at;
      at += bytes;
    } else if (pointers != nullptr) {
      from = static_cast<const char*>(pointers[i]);
    }
    if (from == nullptr) return false;
    copied->emplace_back(from, from + bytes);
  }
  return true;
}

bool Fits(const edge::Triple& grid, const edge::Triple& block, const edge::Kernel& kernel) {
  constexpr unsigned kMostThreads = 1024, kMostZ = 64, kMostBlocks = 65535, kMostBlocksX = 2147483647;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  return block.x != 0 && block.y != 0 && block.z != 0 && grid.x != 0 && grid.y != 0 && grid.z != 0 &&
         block.x <= kMostThreads && block.y <= kMostThreads && block.z <= kMostZ && threads <= kMostThreads &&
         (kernel.most_threads == 0 || threads <= kernel.most_threads) && grid.x <= kMostBlocksX &&
         grid.y <= kMostBlocks && grid.z <= kMostBlocks;
}

}  // namespace

EMULATED_API CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return Do("cuModuleLoadData", Needs::kContext, {}, [&](Call& call) {
    if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = Unsafe(); result != CUDA_SUCCESS) return result;
    const CUresult result = Load(image, module);
    if (result == CUDA_SUCCESS) {
      std::string kernels;
      for (unsigned i = 0; i < (*module)->unit->kernels; ++i) kernels += std::string(i ? " " : "") + (*module)->unit->kernel[i].name;
      call.Tell({"kernels", kernels});
    }
    return result;
  });
}

EMULATED_API CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, int*, void**) {
  return cuModuleLoadData(module, image);
}

EMULATED_API CUresult cuModuleUnload(CUmodule module) {
  return Do("cuModuleUnload", Needs::kContext, {{"module", static_cast<const void*>(module)}}, [&] {
    if (!All<Module>().Has(module)) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = FinishAll(CurrentContext()); result != CUDA_SUCCESS) return result;
    All<Module>().Remove(module);
    for (const auto& function : module->functions) All<Function>().Remove(function.get());
    Close(module);
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return Do("cuModuleGetFunction", Needs::kContext, {{"name", name}}, [&] {
    if (!All<Module>().Has(module)) return CUDA_ERROR_INVALID_HANDLE;
    return GetFunction(module, name, function);
  });
}

EMULATED_API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return Do("cuFuncGetAttribute", Needs::kContext, {{"attribute", attribute}}, [&] {
    if (!All<Function>().Has(function)) return CUDA_ERROR_INVALID_HANDLE;
    const edge::Kernel& kernel = *function->kernel;
    switch (attribute) {
      case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = static_cast<int>(kernel.most_threads ? kernel.most_threads : 1024);
        return CUDA_SUCCESS;
      case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = static_cast<int>(kernel.shared_end - kernel.shared);
        return CUDA_SUCCESS;
      case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = static_cast<int>(function->most_dynamic_shared);
        return CUDA_SUCCESS;
      default:  // registers and the like, which code for a CPU does not have
        *value = 0;
        return CUDA_SUCCESS;
    }
  });
}

EMULATED_API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return Do("cuFuncSetAttribute", Needs::kContext, {{"attribute", attribute}, {"value", value}}, [&] {
    if (!All<Function>().Has(function)) return CUDA_ERROR_INVALID_HANDLE;
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return CUDA_SUCCESS;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0) return CUDA_ERROR_INVALID_VALUE;
    const auto shared = static_cast<std::size_t>(function->kernel->shared_end - function->kernel->shared);
    if (shared + static_cast<std::size_t>(value) > kMostShared) return CUDA_ERROR_INVALID_VALUE;
    function->most_dynamic_shared = static_cast<std::size_t>(value);
    return CUDA_SUCCESS;
  });
}

EMULATED_API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_shared,
                                     CUstream handle, void** arguments, void** extra) {
  const bool known = All<Function>().Has(function);
  const edge::Triple grid{grid_x, grid_y, grid_z}, block{block_x, block_y, block_z};
  return Do("cuLaunchKernel", Needs::kContext,
            {{"kernel", known ? function->name : std::string()},
             {"grid_x", grid.x}, {"grid_y", grid.y}, {"grid_z", grid.z},
             {"block_x", block.x}, {"block_y", block.y}, {"block_z", block.z},
             {"shared", dynamic_shared}, {"stream", static_cast<const void*>(handle)}},
            [&] {
    if (!known) return CUDA_ERROR_INVALID_HANDLE;
    Stream* stream = StreamOf(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (!Fits(grid, block, *function->kernel) || dynamic_shared > function->most_dynamic_shared) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    Launch launch{function->module->unit, function->kernel, grid, block, dynamic_shared, {}, CurrentContext(),
                  function->module->constants};
    if (!CopyArguments(*function->kernel, arguments, extra, &launch.arguments)) return CUDA_ERROR_INVALID_VALUE;
    return Enqueue(stream, [launch, function] {
      if (!All<Function>().Has(function)) {
        Say("a kernel's module was unloaded before the kernel ran");
        return CUDA_ERROR_ILLEGAL_INSTRUCTION;
      }
      const Outcome outcome = Run(launch);
      if (outcome.result != CUDA_SUCCESS) Say("kernel " + function->name + ", " + outcome.words);
      return outcome.result;
    });
  });
}

}  // namespace emulated
