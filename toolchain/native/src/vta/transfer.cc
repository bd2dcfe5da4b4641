// LOAD and STORE.
#include <algorithm>
#include <cstring>

#include "vta/gemm.h"
#include "vta/sram.h"

namespace edge::vta {

Sram::Sram(const Config& config)
    : uop(Depth(config, Memory::kUop)),
      inp(size_t{Depth(config, Memory::kInp)} * config.Lanes()),
      wgt(size_t{Depth(config, Memory::kWgt)} * config.Taps()),
      acc(size_t{Depth(config, Memory::kAcc)} * config.Lanes()),
      out(size_t{Depth(config, Memory::kOut)} * config.Lanes()),
      follows(Depth(config, Memory::kOut)) {}

void Sram::Clear() {
  std::fill(uop.begin(), uop.end(), 0);
  std::fill(inp.begin(), inp.end(), 0);
  std::fill(wgt.begin(), wgt.end(), 0);
  std::fill(acc.begin(), acc.end(), 0);
  std::fill(out.begin(), out.end(), 0);
  std::fill(follows.begin(), follows.end(), 0);
}

void KeepOut(const Config& config, Sram& sram, uint32_t element) {
  if (!sram.follows[element]) return;
  sram.follows[element] = 0;
  const size_t lanes = config.Lanes();
  const int32_t* from = &sram.acc[element * lanes];
  int8_t* to = &sram.out[element * lanes];
  for (size_t i = 0; i < lanes; ++i) to[i] = static_cast<int8_t>(static_cast<uint8_t>(from[i]));
}

void RowInArena(const Config& config, const Arena& arena, const Instruction& instruction, uint32_t y,
                uint64_t* first, uint64_t* last) {
  const uint64_t bytes = ElementBytes(config, instruction.memory);
  const uint64_t element = uint64_t{instruction.dram} + uint64_t{y} * instruction.x_stride;
  *first = element * bytes - arena.base;  // CheckBlock: not before it
  *last = *first + instruction.x_size * bytes;
}

void CheckBlock(const Config& config, const Arena& arena, const Instruction& instruction, uint32_t index) {
  const uint64_t cells = uint64_t{instruction.Rows()} * instruction.Columns();
  const uint32_t depth = Depth(config, instruction.memory);
  if (cells != 0 && instruction.sram + cells > depth) {
    Refuse("bounds", instruction, index,
           "elements " + std::to_string(instruction.sram) + " to " +
               std::to_string(instruction.sram + cells - 1) + " of " + MemoryName(instruction.memory) +
               ", which has " + std::to_string(depth));
  }
  if (instruction.y_size == 0 || instruction.x_size == 0) return;
  const uint64_t bytes = ElementBytes(config, instruction.memory);
  const uint64_t first = instruction.dram * bytes;
  const uint64_t last =
      (instruction.dram + uint64_t{instruction.y_size - 1} * instruction.x_stride + instruction.x_size) * bytes;
  if (first < arena.base || last > uint64_t{arena.base} + arena.bytes) {
    Refuse("bounds", instruction, index,
           "bytes " + std::to_string(first) + " to " + std::to_string(last - 1) +
               " of DRAM; the program's own lie from " + std::to_string(arena.base) + " to " +
               std::to_string(uint64_t{arena.base} + arena.bytes - 1));
  }
}

namespace {

// An element, or several, of the buffer that the instruction names; from nowhere: zeros.
void Fill(const Config& config, Sram& sram, Memory memory, size_t element, const uint8_t* from, size_t count) {
  const size_t lanes = config.Lanes();
  const auto copy = [&](void* to, size_t bytes) {
    if (from != nullptr) {
      std::memcpy(to, from, bytes);
    } else {
      std::memset(to, 0, bytes);
    }
  };
  if (count == 0) return;
  switch (memory) {
    case Memory::kUop:
      return copy(&sram.uop[element], count * 4);
    case Memory::kInp:
      return copy(&sram.inp[element * lanes], count * lanes);
    case Memory::kWgt:
      for (size_t i = 0; i < count; ++i) {
        const size_t taps = config.Taps();
        SpreadWeights(config, from == nullptr ? nullptr : from + i * taps, &sram.wgt[(element + i) * taps]);
      }
      return;
    default:
      break;
  }
  for (size_t i = 0; i < count; ++i) KeepOut(config, sram, static_cast<uint32_t>(element + i));
  if (memory == Memory::kAcc || from == nullptr) return copy(&sram.acc[element * lanes], count * lanes * 4);
  for (size_t i = 0; i < count * lanes; ++i) sram.acc[element * lanes + i] = static_cast<int8_t>(from[i]);
}

}  // namespace

void Load(const Config& config, Sram& sram, const Arena& arena, const Instruction& instruction, uint32_t index) {
  CheckBlock(config, arena, instruction, index);
  const size_t columns = instruction.Columns();
  if (columns == 0) return;
  size_t at = instruction.sram;
  const auto fill = [&](const uint8_t* from, size_t count) {
    Fill(config, sram, instruction.memory, at, from, count);
    at += count;
  };
  fill(nullptr, instruction.y_pad_0 * columns);
  for (uint32_t y = 0; y < instruction.y_size; ++y) {
    fill(nullptr, instruction.x_pad_0);
    if (instruction.x_size != 0) {
      uint64_t first = 0, last = 0;
      RowInArena(config, arena, instruction, y, &first, &last);
      fill(arena.data + first, instruction.x_size);
    }
    fill(nullptr, instruction.x_pad_1);
  }
  fill(nullptr, instruction.y_pad_1 * columns);
}

void Store(const Config& config, Sram& sram, const Arena& arena, const Instruction& instruction, uint32_t index) {
  CheckBlock(config, arena, instruction, index);
  if (instruction.x_size == 0) return;
  const size_t lanes = config.Lanes();
  const uint64_t cells = uint64_t{instruction.y_size} * instruction.x_size;
  for (uint64_t i = 0; i < cells; ++i) {
    const auto element = static_cast<uint32_t>(instruction.sram + i);
    if (!sram.follows[element]) continue;
    KeepOut(config, sram, element);
    sram.follows[element] = 1;
  }
  const int8_t* from = sram.out.data() + instruction.sram * lanes;
  for (uint32_t y = 0; y < instruction.y_size; ++y) {
    uint64_t first = 0, last = 0;
    RowInArena(config, arena, instruction, y, &first, &last);
    std::memcpy(arena.data + first, from, last - first);
    from += last - first;
  }
}

}  // namespace edge::vta
