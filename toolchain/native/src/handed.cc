#include "handed.h"

#include <algorithm>

namespace edge {

void Handed::Object(uint64_t handle, int32_t type) {
  Held& held = objects_[handle];
  ++held.count;
  held.type = type;
}

void Handed::Tensor(uint64_t handle, int32_t type, uint64_t data, uint64_t bytes) {
  Object(handle, type);
  Held& held = objects_[handle];
  if (held.tensor) return;
  held.tensor = true;
  held.data = data;
  held.bytes = bytes;
  tensors_.emplace(data, bytes);
}

void Handed::Memory(uint64_t data, uint64_t bytes) { memory_[data] = bytes; }

bool Handed::DropObject(uint64_t handle) {
  const auto found = objects_.find(handle);
  if (found == objects_.end()) return false;
  const Held& held = found->second;
  if (found->second.count-- > 1) return true;
  if (held.tensor) {
    const auto [begin, end] = tensors_.equal_range(held.data);
    tensors_.erase(std::find_if(begin, end, [&](const auto& at) { return at.second == held.bytes; }));
  }
  objects_.erase(found);
  return true;
}

bool Handed::DropMemory(uint64_t data) { return memory_.erase(data) != 0; }

bool Handed::IsObject(uint64_t handle, int32_t type) const {
  const auto found = objects_.find(handle);
  return found != objects_.end() && found->second.type == type;
}

bool Handed::IsMemory(uint64_t data, uint64_t offset, uint64_t bytes) const {
  uint64_t begin, end;
  if (__builtin_add_overflow(data, offset, &begin) || __builtin_add_overflow(begin, bytes, &end)) {
    return false;
  }
  const auto within = [&](const auto& at) { return at.first <= begin && end - at.first <= at.second; };
  // The pieces of memory never overlap; tensors may, and there are few.
  const auto after = memory_.upper_bound(begin);
  if (after != memory_.begin() && within(*std::prev(after))) return true;
  return std::any_of(tensors_.begin(), tensors_.upper_bound(begin), within);
}

bool Handed::IsPointer(uint64_t value) const {
  return pointers_.count(value) != 0 || IsObject(value) || memory_.count(value) != 0 ||
         tensors_.count(value) != 0;
}

}  // namespace edge
