// What a library of TVM 0.27 embeds for a device that runs kernels (target/source/codegen_source_base.cc writes
// it; the wheel has no reader of it): how each kernel is called, and their code.
#pragma once

#include <dlpack/dlpack.h>
#include <tvm/ffi/any.h>
#include <tvm/support/serializer.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace edge {

// Bytes in memory, as a stream to read from.
class Blob final : public tvm::support::Stream {
 public:
  explicit Blob(std::string_view bytes) : left_(bytes) {}
  using Stream::Read;
  using Stream::Write;

  size_t Read(void* to, size_t size) final;
  size_t Write(const void*, size_t) final { return 0; }
  // The next bytes, as many as there are at most.
  std::string_view Take(uint64_t size);
  size_t left() const { return left_.size(); }

 private:
  std::string_view left_;
};

// How many groups there are along an axis, or work items in each.
struct Extent {
  bool groups;
  int axis;
};

struct KernelForm {
  std::string name;
  std::vector<DLDataType> types;  // of its arguments; handles are memory
  std::vector<Extent> extents;    // what follows them
  bool asks_shared = false;       // and last: how many bytes of a group's memory it asks for at each launch

  size_t arguments() const { return types.size() + extents.size() + asks_shared; }
};

struct Embedded {
  std::string format;                         // TVM's word for it
  std::map<std::string, KernelForm> kernels;  // by the names that compiled code calls them by
  std::string code;
};

// Throws where it is damaged. `language` is for the errors' words.
Embedded ReadEmbedded(std::string_view bytes, const std::string& language);

// How many groups of work items a launch has along each axis, and how many work items a group has.
struct Shape {
  static constexpr int kAxes = 3;
  size_t groups[kAxes] = {1, 1, 1};
  size_t items[kAxes] = {1, 1, 1};

  bool Empty() const;           // for a tensor without elements
  size_t ItemsOfGroup() const;  // SIZE_MAX where they cannot be counted
  // "4 x 1 x 1 groups of 16 x 1 x 1 work items", with the language's nouns for both.
  std::string Text(const char* groups_noun, const char* items_noun) const;
};

// What compiled code says behind the arguments. Throws where it is negative, or no int.
Shape ShapeOf(const KernelForm& kernel, const tvm::ffi::AnyView* extents, const std::string& language);

// The value that compiled code hands over for an argument: as many bytes as its type has, the first ones, for
// boards are little-endian. Handles are pointers.
uint64_t ArgumentBits(const DLDataType& type, const tvm::ffi::AnyView& value);

}  // namespace edge
