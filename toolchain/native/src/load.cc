// What a library of TVM 0.27 embeds (tvm_ffi/src/ffi/extra/library_module.cc) and how the Relax
// executable in it is written (tvm/src/runtime/vm/executable.cc).
#include "load.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/tensor.h>
#include <tvm/runtime/vm/executable.h>
#include <tvm/support/serializer.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "device.h"
#include "edge_rt.h"
#include "failure.h"
#include "module_internal.h"

using tvm::ffi::Any;
using tvm::ffi::Module;
using tvm::ffi::ModuleObj;
using tvm::ffi::TypeIndex;
using tvm::runtime::DeviceAPI;
using tvm::runtime::Tensor;
using tvm::runtime::vm::VMExecutable;

namespace edge {
namespace {

// The first word of an executable: executable.cc, kTVMVMBytecodeMagicV2.
constexpr uint64_t kMagic = 0xD225DE2F4214151E;

// Hides what is embedded from TVM's loader.
class Opened final : public tvm::ffi::Library {
 public:
  explicit Opened(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw Failure(EDGE_FAILED, "load", dlerror());
  }
  ~Opened() final { dlclose(handle_); }
  const char* Embedded() const {
    return static_cast<const char*>(dlsym(handle_, tvm::ffi::symbol::tvm_ffi_library_bin));
  }
  void* GetSymbol(const tvm::ffi::String& name) final {
    return name == tvm::ffi::symbol::tvm_ffi_library_bin ? nullptr : dlsym(handle_, name.c_str());
  }

 private:
  void* handle_;
};

// Reads a file's mapped bytes, once: the pages are given back on the way, so that what is copied
// from them is not in memory twice.
class Mapped final : public tvm::support::Stream {
 public:
  Mapped(const char* begin, size_t size)
      : at_(begin), left_(size), kept_(PageOf(begin - 1) + PageSize()) {}
  using Stream::Read;
  using Stream::Write;

  size_t Read(void* to, size_t size) final {
    size = std::min(size, left_);
    for (size_t done = 0; done < size;) {
      const size_t step = std::min(kStep, size - done);
      std::memcpy(static_cast<char*>(to) + done, at_, step);
      done += step;
      Pass(step);
    }
    return size;
  }
  size_t Write(const void*, size_t) final { return 0; }
  size_t left() const { return left_; }

 private:
  static constexpr size_t kStep = size_t{1} << 20;

  static uintptr_t PageSize() { return sysconf(_SC_PAGESIZE); }
  static uintptr_t PageOf(const char* address) {
    return reinterpret_cast<uintptr_t>(address) / PageSize() * PageSize();
  }

  void Pass(size_t size) {
    at_ += size;
    left_ -= size;
    // A page given back is read from the file again; the loader may have written to those that hold
    // something before or behind the bytes as well: these stay.
    const uintptr_t page = PageOf(at_);
    if (page < kept_ + (left_ == 0 ? 1 : kStep)) return;
    madvise(reinterpret_cast<void*>(kept_), page - kept_, MADV_DONTNEED);
    kept_ = page;
  }

  const char* at_;
  size_t left_;
  uintptr_t kept_;  // where the pages begin that are not given back yet
};

// Bytes of a library's symbol, as its table has them.
size_t SymbolSize(const char* address) {
  Dl_info library;
  void* entry = nullptr;
  if (dladdr1(address, &library, &entry, RTLD_DL_SYMENT) == 0 || entry == nullptr) return 0;
  return static_cast<const ElfW(Sym)*>(entry)->st_size;
}

Failure Damaged() {
  return Failure(EDGE_FAILED, "load", "the library's embedded part is damaged; was it all copied?");
}

// Allocates a constant, and frees what kinds of devices keep for it before the constant itself.
struct ConstantMemory {
  void AllocData(DLTensor* tensor) {
    tensor->data =
        DeviceAPI::Get(tensor->device)->AllocDataSpace(tensor->device, tensor->ndim, tensor->shape, tensor->dtype);
    for (const DeviceKind& kind : DeviceKinds()) {
      if (kind.keep == nullptr) continue;
      if (std::shared_ptr<void> one = kind.keep(*tensor)) kept.push_back(std::move(one));
    }
  }
  void FreeData(DLTensor* tensor) {
    kept.clear();
    DeviceAPI::Get(tensor->device)->FreeDataSpace(tensor->device, tensor->data);
  }
  std::vector<std::shared_ptr<void>> kept;
};

// Reads a value of a plain type, a string or a vector.
template <typename T>
T Next(Mapped* in) {
  T value;
  if (!in->Read(&value)) throw Damaged();
  return value;
}

// Tensor::Load of tvm/runtime/tensor.h makes room by one rule and fills it by another, and believes
// what it multiplies.
Tensor NextTensor(Mapped* in) {
  const auto magic = Next<uint64_t>(in);
  Next<uint64_t>(in);  // means nothing
  const auto device = Next<DLDevice>(in);
  const auto rank = Next<int32_t>(in);
  const auto dtype = Next<DLDataType>(in);
  if (magic != tvm::runtime::kTVMTensorMagic || device.device_type != kDLCPU || rank < 0) {
    throw Damaged();
  }
  std::vector<int64_t> shape;
  uint64_t bits = static_cast<uint64_t>(dtype.bits) * dtype.lanes;
  for (int32_t i = 0; i < rank; ++i) {
    shape.push_back(Next<int64_t>(in));
    if (shape.back() < 0 || __builtin_mul_overflow(bits, static_cast<uint64_t>(shape.back()), &bits)) {
      throw Damaged();
    }
  }
  const uint64_t bytes = bits / 8 + (bits % 8 != 0);
  if (Next<uint64_t>(in) != bytes || bytes > in->left()) throw Damaged();
  Tensor tensor =
      tvm::ffi::Tensor::FromNDAlloc(ConstantMemory(), tvm::ffi::Shape(shape), dtype, DLDevice{kDLCPU, 0});
  if (in->Read(tensor->data, bytes) != bytes) throw Damaged();
  return tensor;
}

Any NextConstant(Mapped* in) {
  switch (const auto type = Next<int32_t>(in)) {
    case TypeIndex::kTVMFFITensor: return NextTensor(in);
    case TypeIndex::kTVMFFIShape: return tvm::ffi::Shape(Next<std::vector<int64_t>>(in));
    case TypeIndex::kTVMFFIStr: return tvm::ffi::String(Next<std::string>(in));
    case TypeIndex::kTVMFFIInt: return Next<int64_t>(in);
    case TypeIndex::kTVMFFIFloat: return Next<double>(in);
    case TypeIndex::kTVMFFIDataType: return Next<DLDataType>(in);
    default:
      throw Failure(EDGE_FAILED, "load", "a constant of the unknown type " + std::to_string(type));
  }
}

Module NextExecutable(Mapped* in) {
  if (Next<uint64_t>(in) != kMagic || Next<std::string>(in) != VM_VERSION) {
    throw Failure(EDGE_FAILED, "load", "the library was made by another version of TVM");
  }
  auto executable = tvm::ffi::make_object<VMExecutable>();
  executable->func_table = Next<decltype(executable->func_table)>(in);
  for (const auto& function : executable->func_table) {
    const auto index = static_cast<tvm::runtime::vm::Index>(executable->func_map.size());
    executable->func_map[function.name] = index;
  }
  for (auto scopes = Next<uint64_t>(in); scopes > 0; --scopes) {
    const auto constant = Next<tvm::runtime::vm::Index>(in);
    executable->memory_scopes[constant] = Next<std::string>(in);
  }
  for (auto constants = Next<uint64_t>(in); constants > 0; --constants) {
    executable->constants.push_back(NextConstant(in));
  }
  executable->instr_offset = Next<decltype(executable->instr_offset)>(in);
  executable->instr_data = Next<decltype(executable->instr_data)>(in);
  return Module(executable);
}

Module NextModule(Mapped* in, const Module& code) {
  const auto kind = Next<std::string>(in);
  if (kind.empty()) throw Damaged();
  if (kind == "_lib") return code;
  if (kind == "relax.VMExecutable") {
    Next<uint64_t>(in);  // its bytes
    return NextExecutable(in);
  }
  const auto load = tvm::ffi::Function::GetGlobal("ffi.Module.load_from_bytes." + kind);
  if (!load) throw Failure(EDGE_FAILED, "load", "the library needs what edge-rt lacks: " + kind);
  return (*load)(tvm::ffi::Bytes(Next<std::string>(in))).cast<Module>();
}

Module NextModules(Mapped* in, const Module& code) {
  // Whom each module imports: those from first[i] to first[i + 1] of `imported`.
  const auto first = Next<std::vector<uint64_t>>(in), imported = Next<std::vector<uint64_t>>(in);
  std::vector<Module> modules;
  while (modules.size() + 1 < first.size()) modules.push_back(NextModule(in, code));
  for (size_t i = 0; i < modules.size(); ++i) {
    for (uint64_t j = first[i]; j < first[i + 1]; ++j) {
      ModuleObj::InternalUnsafe::GetImports(modules[i].operator->())
          ->push_back(modules.at(imported.at(j)));
    }
  }
  return modules.at(0);
}

// Made while there is memory.
const tvm::ffi::Error& NoMemory() {
  static const tvm::ffi::Error error("MemoryError", kNoMemory, "");
  return error;
}

// Compiled code, through which nothing can be thrown, looks for null or not 0 and for TVM's last error.
template <typename Result, typename Body>
Result Caught(Result failed, const Body& body) noexcept {
  try {
    return body();
  } catch (const tvm::ffi::Error& error) {
    tvm::ffi::details::SetSafeCallRaised(error);
  } catch (const std::exception&) {
    tvm::ffi::details::SetSafeCallRaised(NoMemory());
  }
  return failed;
}

void* TakeWorkspace(int type, int device, uint64_t bytes, int code, int bits) noexcept {
  return Caught<void*>(nullptr, [&] { return TVMBackendAllocWorkspace(type, device, bytes, code, bits); });
}

int GiveWorkspace(int type, int device, void* workspace) noexcept {
  return Caught(-1, [&] { return TVMBackendFreeWorkspace(type, device, workspace); });
}

// In the place of TVM's own, which throw: later entries of its table count.
void RegisterWorkspaces() {
  NoMemory();
  static const int registered =
      TVMFFIEnvModRegisterContextSymbol("__TVMBackendAllocWorkspace", reinterpret_cast<void*>(TakeWorkspace)) |
      TVMFFIEnvModRegisterContextSymbol("__TVMBackendFreeWorkspace", reinterpret_cast<void*>(GiveWorkspace));
  if (registered != 0) throw std::bad_alloc();
}

}  // namespace

Module LoadLibrary(const std::string& path) {
  RegisterWorkspaces();
  const auto opened = tvm::ffi::make_object<Opened>(path);
  const Module code = tvm::ffi::CreateLibraryModule(opened);
  const char* embedded = opened->Embedded();
  if (embedded == nullptr) return code;
  uint64_t size;
  if (SymbolSize(embedded) < sizeof(size)) throw Damaged();
  std::memcpy(&size, embedded, sizeof(size));
  if (size > SymbolSize(embedded) - sizeof(size)) throw Damaged();
  Mapped in(embedded + sizeof(size), size);
  try {
    return NextModules(&in, code);
  } catch (const std::logic_error&) {  // a length or an index that no vector has
    throw Damaged();
  }
}

}  // namespace edge
