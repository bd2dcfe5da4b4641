// A program as a library holds it: toolchain/vta/compiling/blob.py says its form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "vta/machine.h"

namespace edge::vta {

// 27 numbers of 32 bits. `crc` is of all that comes behind it.
struct ProgramHeader {
  uint32_t magic, version, crc;
  Config config;
  Model model;
  uint32_t mhz;
  uint32_t memory_bytes;  // that the program works in
  uint32_t image_at, begin;  // of what stands there before: in the memory, and in the run of bytes
  uint32_t instructions_at, instructions;
  uint32_t inputs, outputs;
};
static_assert(sizeof(ProgramHeader) == size_t{4} * 27);

// An input or output: where in the memory, and [batch, blocks, h, w, rows, lanes] of int8.
struct Value {
  uint32_t offset, bytes;
  uint32_t shape[6];
  std::string Shape() const;
};
static_assert(sizeof(Value) == size_t{4} * 8);

// What was read of a run of bytes. `image` points into it.
struct Program {
  ProgramHeader header;
  std::vector<Value> inputs, outputs;
  std::vector<Instruction> instructions;  // decoded; for memory at address 0
  const uint8_t* image;
};

// Refuses what was cut, padded or changed, what no configuration runs, and a program that touches other memory
// than its own or writes where its image stands. Nothing is allocated that the bytes' number does not allow.
Program ReadProgram(const uint8_t* bytes, size_t size);

// Fills memory that lies at the address `physical`: zeros and the image, the instructions moved along. Refuses an
// address that no element begins at, or memory whose end has no address.
void PlaceProgram(const Program& program, uint64_t physical, uint8_t* memory);

// The name of a design: toolchain/vta/design/config.py's `bitstream`.
std::string Bitstream(const Config& config);

}  // namespace edge::vta
