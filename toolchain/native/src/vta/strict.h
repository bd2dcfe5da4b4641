// What a program may not rely on: the portable subset of the machine, on which all of its makers agree.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "vta/gemm.h"
#include "vta/queues.h"

namespace edge::vta {

// Rules that an instruction keeps or breaks by itself.
void CheckPortable(const Config& config, const Instruction& instruction, uint32_t index);

// Watches a run: which elements have a value, who wrote and who read them last, and whether tokens put that
// in order. Each call comes before the instruction has its effect.
class Watch {
 public:
  Watch(const Config& config, const Limits& limits, const Arena& arena,
        const std::vector<Instruction>& program);

  void Begin(const Instruction& instruction, uint32_t index, const Clock& clock, const Sram& sram,
             const Arena& arena);

 private:
  // Numbers of a stage's instructions, counted from 1; 0: none.
  struct Element {
    uint32_t written = 0;
    uint32_t read = 0;
  };
  // Of a piece of DRAM as long as an element of OUT: only STORE writes.
  struct Piece {
    uint32_t written = 0;
    uint32_t read[2] = {0, 0};  // by load, by compute
  };
  enum class Out : uint8_t { kNothing, kValid, kLoaded, kReset };

  void Load();
  void Store();
  void Gemm();
  void RunAlu();
  void CheckAmounts(uint32_t dst, uint32_t src, uint64_t first_step) const;
  void LoadPieces();
  void StorePieces();
  // This instruction's in its stage: all before it there have ended.
  uint32_t Number() const { return (*clock_)[now_->stage] + 1; }
  void NeedsUops();
  void NeedsPlace(Memory memory, uint32_t element) const;
  void NeedsAcc(uint32_t element);
  void WritesAcc(uint32_t element, Out state);
  void Use(uint32_t element);  // of ACC, by a step
  void ReadsShared(std::vector<Element>& of, Memory memory, uint32_t element, int writer);
  void WritesShared(std::vector<Element>& of, Memory memory, uint32_t element, int reader);
  // `other`'s instruction of that number, and this one, may happen in either order.
  [[noreturn]] void Race(const std::string& what, int other, uint32_t number, const char* does,
                         const char* verb) const;
  [[noreturn]] void Fail(const char* rule, const std::string& why) const { Refuse(rule, *now_, index_, why); }

  const Config& config_;
  const Limits& limits_;
  std::vector<uint8_t> uop_, acc_;
  std::vector<Element> inp_, wgt_, out_;
  std::vector<Out> state_;
  std::vector<uint64_t> used_;  // the step that wrote an ACC element last; 0: none
  uint64_t step_ = 0;
  std::vector<Piece> pieces_;
  std::array<std::vector<uint32_t>, kStages> stages_;  // numbers in the program

  const Instruction* now_ = nullptr;
  uint32_t index_ = 0;
  const Clock* clock_ = nullptr;
  const Sram* sram_ = nullptr;
  const Arena* arena_ = nullptr;
};

}  // namespace edge::vta
