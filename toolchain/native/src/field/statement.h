// What a release says of itself: a statement whose every field is checked, and that enough keys have signed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "field/trust.h"
#include "field/version.h"

namespace edge::field {

constexpr size_t kMostParts = 258;  // with 256 inputs and outputs
constexpr size_t kMostOutputParts = 64;
constexpr int64_t kMostBytes = int64_t{1} << 32;  // of all parts

struct Part {
  std::string name;    // nothing but these, in this order: manifest.json, library.so, sample/N.npy, expected/N.npy
  std::string sha256;  // 64 hexadecimal digits
  int64_t bytes;
};

enum class Comparison { kValues, kLogProbabilities, kEqual, kSteps };

// Where the parts of an output along one of its axes end, in rising order: each part is compared in its own scale.
struct PartEnds {
  size_t axis;
  std::vector<int64_t> ends;  // at least two
};

struct OutputTest {
  Comparison compare;
  int64_t tolerance_ppb;          // of steps: billionths of one
  std::optional<double> step;     // given if and only if it is compared in steps
  std::optional<int64_t> values;  // how many may be off by half a step or more; none: all
  std::vector<PartEnds> parts;    // of values alone; by rising axis, and at most kMostOutputParts in all. None: one part
};

struct Requirements {
  std::string arch;
  std::optional<std::string> glibc;
  std::string tvm, tvm_ffi;
  std::vector<std::string> features, devices, functions;
};

struct Release {
  std::string envelope;  // what release.json holds
  std::string digest;    // the bundle's, 64 hexadecimal digits
  std::string statement;  // the SHA-256 of what was signed: two releases of one bundle differ in it
  std::string app;
  Version version;
  int64_t issued, expires;  // seconds since 1970
  std::vector<std::string> classes;
  std::vector<Part> parts;  // in the order of the subjects
  int inputs, outputs;      // how many parts sample/N.npy and expected/N.npy there are, N from 0; at least one each
  Requirements requirements;
  struct {
    std::string device;
    int threads;
    std::string cluster;
  } run;
  struct {
    int runs;
    int64_t timeout_s;
    std::vector<OutputTest> outputs;  // one for each expected/N.npy
  } test;
  struct {
    std::optional<int64_t> latency_us, memory_kib;
  } budget;
  std::string verified_class;  // of the board that verified the bundle; empty: none did
};

// A release that the trust allows at the time `now`, in seconds since 1970. Throws EDGE_REFUSED: "envelope",
// "signature", "threshold", "expired" for trust or release, "clock" if the release is from the future,
// "statement" for anything in it that is not as it must be.
Release ReadRelease(std::string_view envelope, const Trust& trust, int64_t now);

// A release that ReadRelease allowed before and that this board kept: neither its signatures nor its dates count now.
// Throws EDGE_REFUSED: "envelope", "statement".
Release ReadKept(std::string_view envelope);

}  // namespace edge::field
