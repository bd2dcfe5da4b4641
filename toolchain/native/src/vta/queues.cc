#include "vta/queues.h"

#include <algorithm>

#include "text.h"

namespace edge::vta {
namespace {

// From whom to whom: the names are those of the specification, G is compute.
enum Link { kL2G, kG2L, kG2S, kS2G };
constexpr int kLinks = 4;
constexpr int kProducer[] = {kLoadStage, kComputeStage, kComputeStage, kStoreStage};
constexpr int kConsumer[] = {kComputeStage, kLoadStage, kStoreStage, kComputeStage};
const char* const kLinkNames[] = {"L2G", "G2L", "G2S", "S2G"};

bool Pops(const Instruction& i, int link) {
  if (i.stage != kConsumer[link]) return false;
  return link == kL2G || link == kG2S ? i.pop_prev : i.pop_next;
}

bool Pushes(const Instruction& i, int link) {
  if (i.stage != kProducer[link]) return false;
  return link == kL2G || link == kG2S ? i.push_next : i.push_prev;
}

}  // namespace

Queues::Queues(const std::vector<Instruction>& program, const Model& model, const Limits& limits)
    : program_(program), model_(model), limits_(limits), timeline_(program.size()) {
  for (TokenQueue& queue : tokens_) queue.pops.push_back(0);
  for (uint32_t i = 0; i < program.size(); ++i) {
    stages_[program[i].stage].instructions.push_back(i);
    for (int link = 0; link < kLinks; ++link) {
      auto& pops = tokens_[link].pops;
      if (program[i].stage == kConsumer[link]) pops.push_back(pops.back() + Pops(program[i], link));
    }
  }
}

// Fetch hands on in the program's order and waits where a queue is full.
void Queues::Fetch() {
  for (; fetched_ < program_.size(); ++fetched_) {
    StageState& stage = stages_[program_[fetched_].stage];
    const size_t index = stage.fetched.size();
    if (index - stage.begun >= limits_.queue) return;
    fetch_time_ += model_.fetch;
    if (index >= limits_.queue) {  // a place became free when that one began
      fetch_time_ = std::max(fetch_time_, timeline_[stage.instructions[index - limits_.queue]].begin);
    }
    stage.fetched.push_back(fetch_time_);
  }
}

bool Queues::Ready(int number, uint64_t* begin) const {
  const StageState& stage = stages_[number];
  if (!stage.Waits()) return false;
  const Instruction& instruction = program_[stage.instructions[stage.begun]];
  *begin = std::max(stage.free, stage.fetched[stage.begun]);
  for (int link = 0; link < kLinks; ++link) {
    if (!Pops(instruction, link)) continue;
    const TokenQueue& queue = tokens_[link];
    if (queue.Empty()) return false;
    *begin = std::max(*begin, queue.pushed[queue.popped].time);
  }
  return true;
}

bool Queues::Next(uint32_t* instruction, Clock* clock) {
  Fetch();
  int chosen = -1;
  uint64_t earliest = 0;
  for (int number = 0; number < kStages; ++number) {
    uint64_t begin = 0;
    // Whatever begins later pushes later still: instructions are run in the order of the model's time.
    if (Ready(number, &begin) && (chosen < 0 || begin < earliest)) {
      chosen = number;
      earliest = begin;
    }
  }
  if (chosen < 0) {
    for (const StageState& stage : stages_) {
      if (!stage.Ended()) Deadlock();
    }
    return false;
  }
  StageState& stage = stages_[chosen];
  current_ = stage.instructions[stage.begun];
  for (int link = 0; link < kLinks; ++link) {
    if (!Pops(program_[current_], link)) continue;
    const Token& token = tokens_[link].pushed[tokens_[link].popped++];
    for (int i = 0; i < kStages; ++i) stage.clock[i] = std::max(stage.clock[i], token.clock[i]);
  }
  const uint64_t fetched = stage.fetched[stage.begun];
  const uint64_t could = std::max(stage.free, fetched);
  stage.times.wait_fetch += could - stage.free;
  stage.times.wait_tokens += earliest - could;
  timeline_[current_].begin = earliest;
  ++stage.begun;
  *instruction = current_;
  *clock = stage.clock;
  return true;
}

void Queues::End(uint64_t cycles, bool strict) {
  const Instruction& instruction = program_[current_];
  StageState& stage = stages_[instruction.stage];
  Interval& interval = timeline_[current_];
  interval.end = interval.begin + cycles;
  stage.free = interval.end;
  stage.clock[instruction.stage] = static_cast<uint32_t>(stage.begun);
  ++stage.times.instructions;
  stage.times.busy += cycles;
  last_ = std::max(last_, interval.end);
  for (int link = 0; link < kLinks; ++link) {
    if (!Pushes(instruction, link)) continue;
    TokenQueue& queue = tokens_[link];
    queue.pushed.push_back({interval.end, stage.clock});
    // Not what waits now: what may wait, if the consumer is as late as it can be.
    const size_t waiting = queue.pushed.size() - queue.pops[stage.clock[kConsumer[link]]];
    if (strict && waiting > limits_.tokens) {
      Refuse("tokens", instruction, current_,
             "up to " + std::to_string(waiting) + " tokens wait in " + kLinkNames[link] + ", and only " +
                 std::to_string(limits_.tokens) + " are counted: let " + StageName(kProducer[link]) +
                 " wait for " + StageName(kConsumer[link]) + " before");
    }
  }
}

void Queues::CheckEmpty() const {
  for (int link = 0; link < kLinks; ++link) {
    const TokenQueue& queue = tokens_[link];
    if (queue.Empty()) continue;
    const auto left = static_cast<int64_t>(queue.pushed.size() - queue.popped);
    throw Refusal("tokens", "at the end " + Counted(left, "token") + " of " + kLinkNames[link] +
                                (left == 1 ? " is" : " are") + " left: " + StageName(kProducer[link]) + " pushed " +
                                std::to_string(queue.pushed.size()) + ", " + StageName(kConsumer[link]) +
                                " took " + std::to_string(queue.popped) + ". They would confuse the next run");
  }
}

std::string Queues::NextPush(int link) const {
  const StageState& producer = stages_[kProducer[link]];
  for (size_t i = producer.begun; i < producer.instructions.size(); ++i) {
    const uint32_t index = producer.instructions[i];
    if (Pushes(program_[index], link)) return Where(program_[index], index) + " would push the next";
  }
  return "no later instruction pushes one";
}

std::string Queues::WhatItWaitsFor(int number) const {
  const StageState& stage = stages_[number];
  if (stage.Ended()) return std::string(StageName(number)) + " has no more instructions";
  const uint32_t index = stage.instructions[stage.begun];
  const Instruction& instruction = program_[index];
  if (!stage.Waits()) {
    return std::string(StageName(number)) + " waits for fetch to bring " + Where(instruction, index);
  }
  std::string text = std::string(StageName(number)) + " waits at " + Where(instruction, index);
  for (int link = 0; link < kLinks; ++link) {
    const TokenQueue& queue = tokens_[link];
    if (!Pops(instruction, link) || !queue.Empty()) continue;
    text += " for a token of " + std::string(kLinkNames[link]) + " from " + StageName(kProducer[link]) + " (" +
            std::to_string(queue.pushed.size()) + " pushed, all taken; " + NextPush(link) + ")";
  }
  return text;
}

void Queues::Deadlock() const {
  std::string text = "deadlock";
  uint32_t first = kWholeProgram;
  for (int number = 0; number < kStages; ++number) {
    text += (number == 0 ? ": " : "; ") + WhatItWaitsFor(number);
    const StageState& stage = stages_[number];
    if (stage.Waits()) first = std::min(first, stage.instructions[stage.begun]);
  }
  const bool full = fetched_ < program_.size();
  if (full) {
    const Instruction& next = program_[fetched_];
    text += "; fetch waits with " + Where(next, fetched_) + ", as the queue of " + StageName(next.stage) + " holds " +
            std::to_string(limits_.queue) + " instructions";
  }
  throw Refusal(full ? "look-ahead" : "deadlock", text, first);
}

}  // namespace edge::vta
