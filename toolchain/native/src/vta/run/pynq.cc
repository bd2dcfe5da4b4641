#include "vta/run/pynq.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>

#include "text.h"

namespace edge::vta {
namespace {

// Four blocks of registers, a page each.
constexpr uint32_t kFetch = 0x43C00000, kLoad = 0x43C01000, kCompute = 0x43C02000, kStore = 0x43C03000;
constexpr uint32_t kBytes = 0x4000;
constexpr uint32_t kControl = 0x00;  // of each block
constexpr uint32_t kFetchCount = 0x10, kFetchAddress = 0x18;
constexpr uint32_t kLoadInp = 0x10, kLoadWgt = 0x18;
constexpr uint32_t kComputeDone = 0x18, kComputeUop = 0x20, kComputeAcc = 0x28;
constexpr uint32_t kStoreOut = 0x10;
constexpr uint32_t kStart = 0x01, kAgain = 0x80;  // a block that begins again computes instruction after instruction
constexpr uint32_t kIsDone = 1;
constexpr double kRunPatience = 30;  // seconds for another process to end its run

const char* const kReload = "load the design anew: `toolchain board provision BOARD --bitstream FILE`";

class Pynq;

class OnPynq final : public Loaded {
 public:
  OnPynq(Pynq& driver, std::shared_ptr<Buffer> buffer, const ProgramHeader& header, double seconds)
      : driver_(driver), buffer_(std::move(buffer)), header_(header), seconds_(seconds) {}
  uint8_t* memory() final { return buffer_->data; }
  uint64_t Run() final;

 private:
  Pynq& driver_;
  std::shared_ptr<Buffer> buffer_;
  ProgramHeader header_;
  double seconds_;
};

class Pynq final : public Driver {
 public:
  Pynq(std::unique_ptr<Registers> registers, std::unique_ptr<Contiguous> memory, Design design, double longest)
      : registers_(std::move(registers)), memory_(std::move(memory)), design_(std::move(design)), longest_(longest) {}

  std::unique_ptr<Loaded> Load(const Program& program) final {
    const ProgramHeader& header = program.header;
    const std::string wanted = Bitstream(header.config);
    if (wanted != design_.bitstream || header.config.isa_rev != design_.isa_rev) {
      throw Refusal("design", "the program is for the design " + wanted + " with instructions of revision " +
                                  std::to_string(header.config.isa_rev) + ", and loaded is " + design_.bitstream +
                                  " with revision " + std::to_string(design_.isa_rev) +
                                  ": load that design, or build for this one");
    }
    const double seconds = std::max(longest_, 20 * Checked(program) / (header.mhz * 1e6));
    std::shared_ptr<Buffer> buffer = memory_->Take(header.memory_bytes);
    PlaceProgram(program, buffer->physical, buffer->data);
    return std::make_unique<OnPynq>(*this, std::move(buffer), header, seconds);
  }

  // `address`: of the instructions.
  void Run(uint32_t address, uint32_t count, double seconds) {
    const std::lock_guard lock(mutex_);
    if (hung_) throw Refusal("driver", std::string("the accelerator has not finished an earlier program; ") + kReload);
    registers_->Take(kRunPatience);
    const bool done = Start(address, count, seconds);
    registers_->Release();
    if (done) return;
    hung_ = true;
    throw Refusal("driver", "the accelerator did not finish within " + JsonNumber(seconds) + " s; " + kReload);
  }

 private:
  // Cycles of the model. Refuses what the hardware would not run to its end or would run otherwise.
  static double Checked(const Program& program) {
    const ProgramHeader& header = program.header;
    const uint8_t* code = program.image + (header.instructions_at - header.image_at);
    const Arena arena{nullptr, header.memory_bytes, 4096};  // some page: no data is looked at
    Machine machine(header.config);
    return static_cast<double>(
        machine.Run(code, header.instructions, arena, header.model, kLimits, {true, false}).cycles);
  }

  bool Start(uint32_t address, uint32_t count, double seconds) {
    const auto write = [&](uint32_t block, uint32_t place, uint32_t value) { registers_->Write(block + place, value); };
    write(kFetch, kFetchCount, count);
    write(kFetch, kFetchAddress, address);
    write(kLoad, kLoadInp, 0);
    write(kLoad, kLoadWgt, 0);
    write(kCompute, kComputeUop, 0);
    write(kCompute, kComputeAcc, 0);
    write(kStore, kStoreOut, 0);
    // All that was written to memory is there before it begins.
    __sync_synchronize();
    write(kFetch, kControl, kStart);
    for (const uint32_t block : {kLoad, kCompute, kStore}) write(block, kControl, kStart | kAgain);
    usleep(1);
    using std::chrono::steady_clock;
    const auto until = steady_clock::now() + std::chrono::duration<double>(seconds);
    while (registers_->Read(kCompute + kComputeDone) != kIsDone) {
      if (steady_clock::now() >= until) {
        // No block begins with another instruction: its memory may be somebody else's soon.
        for (const uint32_t block : {kFetch, kLoad, kCompute, kStore}) write(block, kControl, 0);
        return false;
      }
      sched_yield();
    }
    __sync_synchronize();
    return true;
  }

  std::unique_ptr<Registers> registers_;
  std::unique_ptr<Contiguous> memory_;
  Design design_;
  double longest_;
  std::mutex mutex_;
  bool hung_ = false;
};

uint64_t OnPynq::Run() {
  const auto address = static_cast<uint32_t>(buffer_->physical + header_.instructions_at);
  driver_.Run(address, header_.instructions, seconds_);
  return 0;
}

}  // namespace

std::string PynqProblem(const PynqPlaces& places) {
  std::ifstream file(places.machine, std::ios::binary);
  const std::string machine((std::istreambuf_iterator<char>(file)), {});
  if (machine.find("xlnx,zynq-7000") == machine.npos) return "this is no Zynq-7000, in whose logic a VTA could be";
  try {
    ReadDesign(places.design);
  } catch (const Refusal& refusal) {
    return refusal.what();
  }
  if (access(places.registers.c_str(), R_OK | W_OK) != 0) {
    return places.registers + " may not be opened (" + std::strerror(errno) + "): run edge-rt as root";
  }
  return ContiguousProblem(places.memory);
}

Design ReadDesign(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Refusal("design", "no design of a VTA is loaded: " + std::string(kReload));
  Design design;
  for (std::string line; std::getline(file, line);) {
    const size_t equals = line.find('=');
    const std::string key = line.substr(0, equals), value = equals == line.npos ? "" : line.substr(equals + 1);
    if (key == "bitstream") design.bitstream = value;
    if (key == "isa_rev") design.isa_rev = static_cast<uint32_t>(WholeNumber(value, UINT32_MAX).value_or(0));
    if (key == "coherent") design.coherent = value != "0";
  }
  if (design.bitstream.empty() || design.isa_rev < 1 || design.isa_rev > 2) {
    throw Refusal("design", path + " does not say which design of a VTA is loaded: " + std::string(kReload));
  }
  return design;
}

std::unique_ptr<Driver> NewPynq(std::unique_ptr<Registers> registers, std::unique_ptr<Contiguous> memory,
                                Design design, double longest) {
  return std::make_unique<Pynq>(std::move(registers), std::move(memory), std::move(design), longest);
}

std::unique_ptr<Driver> OpenPynq(const PynqPlaces& places) {
  if (const std::string why = PynqProblem(places); !why.empty()) throw Refusal("driver", why);
  const Design design = ReadDesign(places.design);
  auto memory = OpenContiguous(places.memory, design.coherent);
  return NewPynq(MapRegisters(places.registers, kFetch, kBytes), std::move(memory), design);
}

}  // namespace edge::vta
