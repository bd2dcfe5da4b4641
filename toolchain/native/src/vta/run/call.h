// A caller's values, moved to a program's memory and back.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <vector>

#include "vta/run/program.h"

namespace edge::vta {

// Where a tensor's elements begin.
uint8_t* Bytes(const DLTensor& tensor);

bool IsOf(const DLTensor& tensor, uint8_t code);

class Call {
 public:
  // Refuses tensors that are not what the program has, but for extents of 1.
  Call(const std::vector<Value>& inputs, const std::vector<Value>& outputs, const std::vector<DLTensor*>& given,
       const std::vector<DLTensor*>& wanted);
  // To and from the memory that the program works in.
  void Put(uint8_t* memory) const;
  void Get(const uint8_t* memory) const;

 private:
  const std::vector<Value>&inputs_, &outputs_;
  const std::vector<DLTensor*>&given_, &wanted_;
};

}  // namespace edge::vta
