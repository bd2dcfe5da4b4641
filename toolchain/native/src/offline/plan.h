// A plan of candidates: what to measure here, in which order, and how. A host has exported it to a folder, or sends it to
// an RPC session.
//
// Lines of ASCII with single blanks. In this order:
//
//   edge-toolchain-plan 3
//   runtime FINGERPRINT                        of the edge-rt that the candidates are for
//   compute DEVICE THREADS CLUSTER REQUIRES    as edge_options has them; "-" for none
//   samples NUMBER REPEAT MIN_REPEAT_MS
//   member SHA256 BYTES                        each file that is needed, named by its digest
//   candidate DIGEST NAME SECONDS LIBRARY FUNCTION MEMORY    or `probe …`: a known-good one, the first. FUNCTION "-": the
//                                            file is no library, but a program of the device's own
//     case                                     one or more
//     stored MEMBER STEPS                      the inputs, in the order of the function's parameters: from a file, or
//     drawn DTYPE SHAPE SEED EXPONENT EDGES STEPS    by both sides alike; `edges` is 0 or 1
//     output DTYPE SHAPE MEMBER TOLERANCE HALVES
//   end COUNT                                  of candidates, the probe too
//   digest SHA256                              of all that stands before this line
//
// STEPS pack an operand as the candidate reads it: `r8x64,t1x0,p0x0x0x4`, or "-" (see operand.h).
// An output's member has the expected values in its layout, as floats; NaN where any value will do. Where nothing is
// expected it is "-": then the values are kept beside the members, as the file `output-CASE-PLACE`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "offline/operand.h"

namespace edge::offline {

struct Output {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string expected;  // empty: its values are kept
  double tolerance;  // largest difference, as a share of the largest expected value
  double halves;     // share of values that may differ by one instead: they are rounded, and some end close to a half
};

struct Case {
  std::vector<Operand> inputs;
  std::vector<Output> outputs;
};

struct Candidate {
  std::string digest, name;
  double limit_s;
  std::string library, function, memory;  // function empty: a program of the device's own
  std::vector<Case> cases;
};

struct Plan {
  std::string folder;   // that holds it; empty: it was sent to a session
  std::string members;  // the folder of the files that it names
  std::string digest;
  std::string device, cluster, requirements;  // empty: none
  int threads, number, repeat, min_repeat_ms;
  bool probed;  // the first candidate is a probe
  std::vector<Candidate> candidates;

  std::string Member(const std::string& member) const { return members + "/" + member; }
};

// `members`: the folder of the files that it names. Throws EDGE_USAGE for a plan that is none, of another version or edge-rt, damaged, or with a member that is missing
// or changed. All members are read.
Plan ParsePlan(const std::string& text, const std::string& members);

// The plan of an exported folder.
Plan ReadPlan(const std::string& folder);

bool IsDigest(const std::string& text);

// Throws EDGE_USAGE: something in the folder is other than it must be.
[[noreturn]] void RefuseFolder(const std::string& why);

}  // namespace edge::offline
