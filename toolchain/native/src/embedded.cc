#include "embedded.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstdint>
#include <cstring>
#include <utility>

#include "text.h"

namespace edge {
namespace {

// TVM's word for memory that a group is given at a launch (runtime/metadata.h, kUseDynamicSharedMemoryTag).
constexpr const char* kAsksShared = "tirx.use_dyn_shared_memory";

struct Reader {
  Blob in;
  std::string language;

  [[noreturn]] void Fail(const std::string& words) const { TVM_FFI_THROW(RuntimeError) << language << ": " << words; }

  template <typename T>
  T Take() {
    T value;
    if (!in.Read(&value)) Fail(Cat({"the library's ", language, " code is damaged; was it all copied?"}));
    return value;
  }

  KernelForm TakeKernel() {
    KernelForm kernel;
    kernel.name = Take<std::string>();
    kernel.types = Take<std::vector<DLDataType>>();
    for (const std::string& word : Take<std::vector<std::string>>()) AddExtent(&kernel, word);
    for (const int32_t extra : Take<std::vector<int32_t>>()) {
      if (extra != 0) Fail(Cat({"kernel ", kernel.name, " takes what no ", language, " device has"}));
    }
    for (const DLDataType& type : kernel.types) CheckType(kernel, type);
    return kernel;
  }

  // Of TVM's word for it: "blockIdx.x", "threadIdx.y" …
  void AddExtent(KernelForm* kernel, const std::string& word) const {
    const bool groups = word.starts_with("blockIdx."), items = word.starts_with("threadIdx.");
    const std::string axis = word.substr(word.find('.') + 1);
    const bool known = (groups || items) && (axis == "x" || axis == "y" || axis == "z");
    if (kernel->asks_shared || (!known && word != kAsksShared)) {  // the latter is the last one
      Fail(Cat({"kernel ", kernel->name, " wants to be begun with ", Quote(word), ", which is not known here"}));
    }
    kernel->asks_shared = !known;
    if (known) kernel->extents.push_back({groups, axis[0] - 'x'});
  }

  void CheckType(const KernelForm& kernel, const DLDataType& type) const {
    bool known = type.lanes == 1;
    switch (type.code) {
      case kDLOpaqueHandle: break;
      case kDLInt:
      case kDLUInt: known = known && (type.bits == 8 || type.bits == 16 || type.bits == 32 || type.bits == 64); break;
      case kDLFloat: known = known && (type.bits == 32 || type.bits == 64); break;
      default: known = false;
    }
    if (known) return;
    Fail(Cat({"kernel ", kernel.name, " takes an argument of a type that no compiled code hands over: code ",
              type.code, ", ", type.bits, " bits"}));
  }
};

}  // namespace

size_t Blob::Read(void* to, size_t size) {
  const std::string_view bytes = Take(size);
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return bytes.size();
}

std::string_view Blob::Take(uint64_t size) {
  const std::string_view bytes = left_.substr(0, std::min<uint64_t>(size, left_.size()));
  left_.remove_prefix(bytes.size());
  return bytes;
}

Embedded ReadEmbedded(std::string_view bytes, const std::string& language) {
  Reader reader{Blob(bytes), language};
  Embedded embedded;
  embedded.format = reader.Take<std::string>();
  for (auto count = reader.Take<uint64_t>(); count > 0; --count) {
    const auto key = reader.Take<std::string>();
    embedded.kernels[key] = reader.TakeKernel();
  }
  embedded.code = reader.Take<std::string>();
  if (reader.in.left() != 0) {
    reader.Fail(Cat({"the library's ", language, " code goes on behind its end; was it all copied?"}));
  }
  return embedded;
}

bool Shape::Empty() const {
  return std::count(groups, groups + kAxes, 0) + std::count(items, items + kAxes, 0) != 0;
}

size_t Shape::ItemsOfGroup() const {
  size_t product = 1;
  for (const size_t along : items) {
    if (__builtin_mul_overflow(product, along, &product)) return SIZE_MAX;
  }
  return product;
}

std::string Shape::Text(const char* groups_noun, const char* items_noun) const {
  return Cat({groups[0], " x ", groups[1], " x ", groups[2], " ", groups_noun, " of ", items[0], " x ", items[1], " x ",
              items[2], " ", items_noun});
}

Shape ShapeOf(const KernelForm& kernel, const tvm::ffi::AnyView* extents, const std::string& language) {
  Shape shape;
  for (size_t i = 0; i < kernel.extents.size(); ++i) {
    const auto [groups, axis] = kernel.extents[i];
    const auto extent = extents[i].cast<int64_t>();
    if (extent < 0 || extent > INT_MAX) {
      TVM_FFI_THROW(RuntimeError) << Cat({language, ": kernel ", kernel.name, " with ", extent,
                                          groups ? " groups" : " work items", " along axis ", std::string_view("xyz").substr(axis, 1)});
    }
    (groups ? shape.groups : shape.items)[axis] = static_cast<size_t>(extent);
  }
  return shape;
}

uint64_t ArgumentBits(const DLDataType& type, const tvm::ffi::AnyView& value) {
  if (type.code == kDLOpaqueHandle) return reinterpret_cast<uintptr_t>(value.cast<void*>());
  if (type.code != kDLFloat) return static_cast<uint64_t>(value.cast<int64_t>());
  const auto number = value.cast<double>();
  return type.bits == 64 ? std::bit_cast<uint64_t>(number)
                         : std::bit_cast<uint32_t>(static_cast<float>(number));
}

}  // namespace edge
