#include "opencl/code.h"

#include <tvm/support/serializer.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "opencl/queue.h"
#include "text.h"

namespace edge::opencl {
namespace {

constexpr std::string_view kMark = "// Function: ";

class Blob final : public tvm::support::Stream {
 public:
  Blob(const char* begin, size_t size) : at_(begin), left_(size) {}
  using Stream::Read;
  using Stream::Write;

  size_t Read(void* to, size_t size) final {
    size = std::min(size, left_);
    std::memcpy(to, at_, size);
    at_ += size;
    left_ -= size;
    return size;
  }
  size_t Write(const void*, size_t) final { return 0; }
  size_t left() const { return left_; }

 private:
  const char* at_;
  size_t left_;
};

template <typename T>
T Take(Blob* in) {
  T value;
  if (!in->Read(&value)) Fail("the library's OpenCL code is damaged; was it all copied?");
  return value;
}

bool Known(const DLDataType& type) {
  if (type.lanes != 1) return false;
  switch (type.code) {
    case kDLOpaqueHandle: return true;
    case kDLInt:
    case kDLUInt: return type.bits == 8 || type.bits == 16 || type.bits == 32 || type.bits == 64;
    case kDLFloat: return type.bits == 32 || type.bits == 64;
    default: return false;
  }
}

// Of TVM's word for it: "blockIdx.x", "threadIdx.y" …
Extent ExtentOf(const KernelCode& kernel, const std::string& word) {
  const bool groups = word.starts_with("blockIdx."), items = word.starts_with("threadIdx.");
  const std::string axis = word.substr(word.find('.') + 1);
  if ((!groups && !items) || (axis != "x" && axis != "y" && axis != "z")) {
    Fail("kernel " + kernel.name + " wants to be begun with " + Quote(word) + ", which is not known here");
  }
  return {groups, axis[0] - 'x'};
}

void CheckTypes(const KernelCode& kernel) {
  for (const DLDataType& type : kernel.types) {
    if (!Known(type)) {
      Fail("kernel " + kernel.name + " takes an argument of a type that no compiled code hands over: code " +
           std::to_string(type.code) + ", " + std::to_string(type.bits) + " bits");
    }
  }
}

// The source is written kernel by kernel, each with the declarations that it needs: two of them together
// may declare a thing twice.
std::map<std::string, std::string> Sections(const std::string& source) {
  std::map<std::string, std::string> sections;
  for (size_t at = source.find(kMark); at != source.npos;) {
    const size_t name = at + kMark.size(), line = std::min(source.find('\n', at), source.size());
    const size_t next = source.find(kMark, line);
    sections[source.substr(name, line - name)] = source.substr(line, next - line);
    at = next;
  }
  return sections;
}

}  // namespace

std::map<std::string, KernelCode> ReadCode(const char* bytes, size_t size) {
  Blob in(bytes, size);
  const auto format = Take<std::string>(&in);
  if (format != "cl") {
    Fail("the library holds code in the format " + Quote(format.substr(0, 40)) +
         "; only OpenCL C (\"cl\") is compiled here");
  }
  std::map<std::string, KernelCode> kernels;
  for (auto count = Take<uint64_t>(&in); count > 0; --count) {
    const auto key = Take<std::string>(&in);
    KernelCode kernel;
    kernel.name = Take<std::string>(&in);
    kernel.types = Take<std::vector<DLDataType>>(&in);
    for (const std::string& word : Take<std::vector<std::string>>(&in)) {
      kernel.extents.push_back(ExtentOf(kernel, word));
    }
    for (const int32_t extra : Take<std::vector<int32_t>>(&in)) {
      if (extra != 0) Fail("kernel " + kernel.name + " takes what no OpenCL device has");
    }
    CheckTypes(kernel);
    kernels[key] = std::move(kernel);
  }
  const std::map<std::string, std::string> sections = Sections(Take<std::string>(&in));
  if (in.left() != 0) Fail("the library's OpenCL code goes on behind its end; was it all copied?");
  for (auto& [key, kernel] : kernels) {
    const auto section = sections.find(kernel.name);
    if (section == sections.end()) Fail("the library has no source of kernel " + kernel.name);
    kernel.source = section->second;
  }
  return kernels;
}

}  // namespace edge::opencl
