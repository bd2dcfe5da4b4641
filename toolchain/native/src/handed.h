// What a session has handed out to its client: objects, memory, and pointers that mean nothing here.
// A number that comes back as one of them must be among these. Memory is a device's: what is a handle to
// one would be an address to another.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>

#include "frame.h"

namespace edge {

class Handed {
 public:
  // `type` is the object's index of tvm_ffi/c_api.h. Each time counts: the client gives each back.
  void Object(uint64_t handle, int32_t type);
  // An object that is a tensor, and where its elements lie.
  void Tensor(uint64_t handle, int32_t type, Device device, uint64_t data, uint64_t bytes);
  void Memory(Device device, uint64_t data, uint64_t bytes);
  void Pointer(uint64_t value) { pointers_.insert(value); }

  // False when there was nothing to take back.
  bool DropObject(uint64_t handle);
  bool DropMemory(Device device, uint64_t data);

  bool IsObject(uint64_t handle) const { return objects_.count(handle) != 0; }
  bool IsObject(uint64_t handle, int32_t type) const;
  // Whether all of these bytes of the device are the client's to read and write.
  bool IsMemory(Device device, uint64_t data, uint64_t offset, uint64_t bytes) const;
  // Anything handed out, as a plain pointer.
  bool IsPointer(uint64_t value) const;

 private:
  struct Held {
    int count = 0;
    int32_t type = 0;
    bool tensor = false;
    Device device{};
    uint64_t data = 0, bytes = 0;
  };
  struct Places {
    std::map<uint64_t, uint64_t> memory;        // from where it begins to its bytes
    std::multimap<uint64_t, uint64_t> tensors;  // likewise; two may share memory
  };
  std::unordered_map<uint64_t, Held> objects_;
  std::map<Device, Places> devices_;
  std::set<uint64_t> pointers_;
};

}  // namespace edge
