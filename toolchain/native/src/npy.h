// numpy's files: .npy is read, .npz is written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace edge {

struct Array {
  std::string dtype;  // numpy's name
  std::vector<int64_t> shape;
  std::string data;  // C order, little-endian
};

// Throws EDGE_USAGE for anything but a whole little-endian C-order array of a known type.
Array ReadNpy(const std::string& path);

struct NamedArray {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  const void* data;
  size_t bytes;
};

// An uncompressed .npz: written beside `path`, synced, then renamed.
void WriteNpz(const std::string& path, const std::vector<NamedArray>& arrays);

}  // namespace edge
