#include "vta/request.h"

#include "text.h"

namespace edge::vta {

std::string Unreadable(const RequestHeader& header) {
  const auto above = [](const char* what, uint32_t value, uint32_t most) {
    return std::string(what) + " " + std::to_string(value) + " where at most " + std::to_string(most) + " may be";
  };
  if (header.magic != kRequestMagic) return "what comes is no request: it does not begin with VTAQ";
  if (header.version != kVersion) {
    return "a request of version " + std::to_string(header.version) + "; this edge-rt reads version " +
           std::to_string(kVersion);
  }
  if ((header.flags & ~uint32_t{kAllFlags}) != 0) return above("flags", header.flags, kAllFlags);
  if (header.arena_bytes > kLargestArena) return above("arena_bytes", header.arena_bytes, kLargestArena);
  if (header.instructions > kLargestProgram) return above("instructions", header.instructions, kLargestProgram);
  if (header.limits.steps > kMostSteps) return above("steps", header.limits.steps, kMostSteps);
  return "";
}

std::string Document(const Outcome& outcome) {
  const auto number = [](const char* name, uint64_t value) {
    return "\"" + std::string(name) + "\": " + std::to_string(value);
  };
  std::string text = "{" + number("cycles", outcome.cycles) + ", " + number("dma_bytes", outcome.dma_bytes) + ", " +
                     number("gemm_steps", outcome.gemm_steps) + ", " + number("alu_steps", outcome.alu_steps) +
                     ", \"stages\": {";
  for (int stage = 0; stage < kStages; ++stage) {
    const StageTimes& times = outcome.stages[stage];
    text += std::string(stage == 0 ? "\"" : ", \"") + StageName(stage) + "\": {" +
            number("instructions", times.instructions) + ", " + number("busy", times.busy) + ", " +
            number("wait_tokens", times.wait_tokens) + ", " + number("wait_fetch", times.wait_fetch) + "}";
  }
  return text + "}}";
}

std::string Document(const Refusal& refusal) {
  const bool whole = refusal.instruction == kWholeProgram;
  return "{\"rule\": " + Quote(refusal.rule) + ", \"instruction\": " +
         (whole ? std::string("null") : std::to_string(refusal.instruction)) +
         ", \"message\": " + Quote(refusal.what()) + "}";
}

}  // namespace edge::vta
