// Three queues of instructions, four of tokens: which instruction is next, when, and what it knows of others.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "vta/instruction.h"

namespace edge::vta {

// How many instructions of each stage are known to have ended: a vector clock.
using Clock = std::array<uint32_t, kStages>;

struct StageTimes {
  uint64_t instructions = 0, busy = 0, wait_tokens = 0, wait_fetch = 0;
};

// Cycles of the model.
struct Interval {
  uint64_t begin, end;
};

class Queues {
 public:
  Queues(const std::vector<Instruction>& program, const Model& model, const Limits& limits);

  // The instruction that begins next; `clock` becomes what has ended before it, whatever the timing. False at
  // the end. Refuses a deadlock and says who waits for whom.
  bool Next(uint32_t* instruction, Clock* clock);
  // The same instruction ends. `strict` refuses more tokens than any implementation can count.
  void End(uint64_t cycles, bool strict);
  // Refuses tokens that nobody took.
  void CheckEmpty() const;

  uint64_t Cycles() const { return last_; }
  const StageTimes& Times(int stage) const { return stages_[stage].times; }
  const std::vector<Interval>& Timeline() const { return timeline_; }

 private:
  struct Token {
    uint64_t time;
    Clock clock;
  };
  struct TokenQueue {
    std::vector<Token> pushed;
    size_t popped = 0;
    // Of the consumer's first n instructions, how many take a token from here.
    std::vector<uint32_t> pops;
    bool Empty() const { return popped == pushed.size(); }
  };
  struct StageState {
    std::vector<uint32_t> instructions;
    std::vector<uint64_t> fetched;  // when
    size_t begun = 0;
    uint64_t free = 0;
    Clock clock{};
    StageTimes times;
    bool Waits() const { return begun < fetched.size(); }
    bool Ended() const { return begun == instructions.size(); }
  };

  void Fetch();
  bool Ready(int stage, uint64_t* begin) const;
  [[noreturn]] void Deadlock() const;
  std::string WhatItWaitsFor(int stage) const;
  std::string NextPush(int queue) const;

  const std::vector<Instruction>& program_;
  const Model& model_;
  const Limits& limits_;
  StageState stages_[kStages];
  TokenQueue tokens_[4];
  std::vector<Interval> timeline_;
  uint32_t fetched_ = 0;
  uint64_t fetch_time_ = 0;
  uint64_t last_ = 0;
  uint32_t current_ = 0;
};

}  // namespace edge::vta
