#include "vta/run/program.h"

#include <algorithm>
#include <cstring>

#include "text.h"
#include "vta/request.h"

namespace edge::vta {
namespace {

constexpr uint32_t kMagic = 0x41545645;  // "EVTA"
constexpr uint32_t kForm = 2;
constexpr uint32_t kMostValues = 1024;
constexpr size_t kCrcEnd = 12;  // bytes up to the checksum, it included

[[noreturn]] void Broken(const std::string& why) { throw Refusal("program", why); }

uint32_t Crc(const uint8_t* bytes, size_t size) {
  static const auto* table = [] {
    auto* made = new uint32_t[256];
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xEDB88320u : 0);
      made[i] = value;
    }
    return made;
  }();
  uint32_t crc = ~uint32_t{0};
  for (size_t i = 0; i < size; ++i) crc = (crc >> 8) ^ table[(crc ^ bytes[i]) & 255];
  return ~crc;
}

// What the header says of sizes; whether they are those that arrived.
void CheckSizes(const ProgramHeader& header, size_t size) {
  if (header.memory_bytes == 0 || header.memory_bytes > kLargestArena) {
    Broken("it wants " + std::to_string(header.memory_bytes) + " bytes of memory, where at most " +
           std::to_string(kLargestArena) + " are given");
  }
  if (header.inputs > kMostValues || header.outputs > kMostValues) {
    Broken(Counted(header.inputs, "input") + " and " + Counted(header.outputs, "output") +
           ", where at most " + std::to_string(kMostValues) + " may be");
  }
  const uint64_t described = sizeof header + uint64_t{header.inputs + header.outputs} * sizeof(Value);
  if (header.image_at > header.memory_bytes || header.begin < described) {
    Broken("its image cannot begin where its header says");
  }
  const uint64_t whole = uint64_t{header.begin} + (header.memory_bytes - header.image_at);
  if (size != whole) {
    Broken("it has " + std::to_string(size) + " bytes where its header says " + std::to_string(whole) +
           ": it was " + (size < whole ? "cut" : "padded"));
  }
  const uint64_t end = header.instructions_at + uint64_t{16} * header.instructions;
  if (header.instructions > kLargestProgram || header.instructions_at < header.image_at || end > header.memory_bytes) {
    Broken(std::to_string(header.instructions) + " instructions at " + std::to_string(header.instructions_at) +
           " lie outside its image");
  }
  // Hardware drops these bits of the address: it would run other bytes than are looked at here.
  if (header.instructions_at % 16 != 0) {
    Broken("its instructions at " + std::to_string(header.instructions_at) + " do not begin at a multiple of 16");
  }
}

std::vector<Value> Values(const ProgramHeader& header, const uint8_t* from, uint32_t count, const char* what) {
  std::vector<Value> values(count);
  if (count != 0) std::memcpy(values.data(), from, count * sizeof(Value));
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t bytes = 1;
    bool fits = true;
    for (const uint32_t extent : values[i].shape) {
      fits = fits && extent != 0 && !__builtin_mul_overflow(bytes, uint64_t{extent}, &bytes);
    }
    if (fits && bytes == values[i].bytes && uint64_t{values[i].offset} + bytes <= header.image_at) continue;
    Broken(std::string(what) + " " + std::to_string(i) + " of shape " + values[i].Shape() + " at " +
           std::to_string(values[i].offset) + " does not fit its " + std::to_string(values[i].bytes) +
           " bytes or the memory for activations");
  }
  return values;
}

// An accelerator reads and writes whatever address it is told: nobody else looks.
void CheckAddresses(const Program& program) {
  const ProgramHeader& header = program.header;
  const Arena all{nullptr, header.memory_bytes, 0}, activations{nullptr, header.image_at, 0};
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& now = program.instructions[i];
    if (!now.IsMemory()) continue;
    CheckBlock(header.config, now.op == Op::kStore ? activations : all, now, i);
  }
}

}  // namespace

std::string Value::Shape() const {
  std::string text;
  for (const uint32_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

std::string Bitstream(const Config& config) {
  std::string name = std::to_string(config.Batch()) + "x" + std::to_string(config.Block()) + "_i8w8a32";
  for (const uint32_t size : {config.log_uop, config.log_inp, config.log_wgt, config.log_acc}) {
    name += "_" + std::to_string(size);
  }
  return name;
}

Program ReadProgram(const uint8_t* bytes, size_t size) {
  Program program{};
  ProgramHeader& header = program.header;
  if (size < sizeof header) {
    Broken("it has " + Counted(static_cast<int64_t>(size), "byte") + ", less than its header: it was cut");
  }
  std::memcpy(&header, bytes, sizeof header);
  if (header.magic != kMagic) Broken("these bytes are none: they do not begin with EVTA");
  if (header.version != kForm) {
    Broken("it has form " + std::to_string(header.version) + " and this edge-rt reads form " + std::to_string(kForm) +
           ": they are of different versions of the toolchain");
  }
  CheckSizes(header, size);
  if (Crc(bytes + kCrcEnd, size - kCrcEnd) != header.crc) Broken("its checksum is wrong: bytes of it were changed");
  header.config.Check();
  if (header.model.dma_bytes == 0 || header.mhz == 0) Broken("its cycle model has no bus or no clock");
  const uint8_t* values = bytes + sizeof header;
  program.inputs = Values(header, values, header.inputs, "input");
  program.outputs = Values(header, values + header.inputs * sizeof(Value), header.outputs, "output");
  program.image = bytes + header.begin;
  program.instructions =
      Decode(header.config, program.image + (header.instructions_at - header.image_at), header.instructions);
  CheckAddresses(program);
  return program;
}

void PlaceProgram(const Program& program, uint64_t physical, uint8_t* memory) {
  const ProgramHeader& header = program.header;
  if (physical + header.memory_bytes > uint64_t{1} << 32) {
    Broken("memory at address " + std::to_string(physical) + " lies beyond what 32 bits address");
  }
  std::memset(memory, 0, header.image_at);
  std::memcpy(memory + header.image_at, program.image, header.memory_bytes - header.image_at);
  // Where an instruction's first word has dram_base.
  const int place = header.config.isa_rev == 1 ? 25 : 26;
  for (uint32_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& now = program.instructions[i];
    if (!now.IsMemory() || now.IsNop()) continue;
    const uint32_t bytes = ElementBytes(header.config, now.memory);
    if (physical % bytes != 0) {
      Broken("memory at address " + std::to_string(physical) + " does not begin at a multiple of " +
             std::to_string(bytes));
    }
    uint8_t* at = memory + header.instructions_at + size_t{16} * i;
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    const uint64_t mask = uint64_t{0xFFFFFFFF} << place;
    word = (word & ~mask) | (((now.dram + physical / bytes) << place) & mask);
    std::memcpy(at, &word, sizeof word);
  }
}

}  // namespace edge::vta
