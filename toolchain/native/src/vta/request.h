// What `edge-rt vta` reads and writes: requests.md, beside this file, says it in prose.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "vta/machine.h"

namespace edge::vta {

constexpr uint32_t kRequestMagic = 0x51415456;  // "VTAQ"
constexpr uint32_t kAnswerMagic = 0x41415456;   // "VTAA"
constexpr uint32_t kVersion = 1;
constexpr uint32_t kLargestArena = 32u << 20;
constexpr uint32_t kLargestProgram = (32u << 20) / 16;
constexpr uint32_t kMostSteps = 1u << 30;

enum Flags : uint32_t { kStrict = 1, kTimeOnly = 2, kTimeline = 4, kNoArena = 8, kAllFlags = 15 };

// 27 numbers of 32 bits, in this order; then the instructions, then the arena (but with kTimeOnly).
struct RequestHeader {
  uint32_t magic, version, id, flags;
  Config config;
  Model model;
  Limits limits;
  uint32_t base, arena_bytes, instructions;
};
static_assert(sizeof(RequestHeader) == size_t{4} * 27);

// Then the document, the arena, the timeline.
struct AnswerHeader {
  uint32_t magic, version, id, refused;
  uint32_t document_bytes, arena_bytes, timeline_bytes;
};

// Why a header cannot be followed: what comes after it then has no meaning. Empty where it can.
std::string Unreadable(const RequestHeader& header);

// JSON: what a run came to, or why there was none.
std::string Document(const Outcome& outcome);
std::string Document(const Refusal& refusal);

}  // namespace edge::vta
