// What the two architectures of Arm have in common: numbers of cores, and features as bits of the kernel's.
#pragma once

#include <sys/auxv.h>

#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace edge::arch {

inline void AddBits(unsigned long bits, const char* const* names, size_t count, std::vector<std::string>* out) {
  for (size_t i = 0; i < count; ++i) {
    if (bits >> i & 1) out->push_back(names[i]);
  }
}

// Bit n of the kernel's first and second word is name n.
template <size_t kFirst, size_t kSecond>
std::vector<std::string> FeaturesOf(const char* const (&first)[kFirst], const char* const (&second)[kSecond]) {
  std::vector<std::string> features;
  AddBits(getauxval(AT_HWCAP), first, kFirst, &features);
  AddBits(getauxval(AT_HWCAP2), second, kSecond, &features);
  return features;
}

// Implementer and part number. Part numbers from Linux, arch/arm64/include/asm/cputype.h and
// arch/arm/include/asm/cputype.h (Arm's are in each core's Technical Reference Manual).
inline std::string PartName(unsigned long implementer, unsigned long part) {
  static const std::map<unsigned long, const char*> kParts = {
      {0x41c05, "cortex-a5"},   {0x41c07, "cortex-a7"},    {0x41c08, "cortex-a8"},
      {0x41c09, "cortex-a9"},   {0x41c0d, "cortex-a12"},   {0x41c0e, "cortex-a17"},
      {0x41c0f, "cortex-a15"},  {0x41d01, "cortex-a32"},   {0x41d02, "cortex-a34"},
      {0x41d03, "cortex-a53"},
      {0x41d04, "cortex-a35"},  {0x41d05, "cortex-a55"},   {0x41d07, "cortex-a57"},
      {0x41d08, "cortex-a72"},  {0x41d09, "cortex-a73"},   {0x41d0a, "cortex-a75"},
      {0x41d0b, "cortex-a76"},  {0x41d0c, "neoverse-n1"},  {0x41d0d, "cortex-a77"},
      {0x41d0e, "cortex-a76ae"}, {0x41d40, "neoverse-v1"}, {0x41d41, "cortex-a78"},
      {0x41d42, "cortex-a78ae"}, {0x41d44, "cortex-x1"},   {0x41d46, "cortex-a510"},
      {0x41d47, "cortex-a710"}, {0x41d48, "cortex-x2"},    {0x41d49, "neoverse-n2"},
      {0x41d4b, "cortex-a78c"}, {0x41d4d, "cortex-a715"},  {0x41d4e, "cortex-x3"},
      {0x41d4f, "neoverse-v2"}, {0x41d80, "cortex-a520"},  {0x41d81, "cortex-a720"},
      {0x41d82, "cortex-x4"},   {0x4e004, "carmel"}};
  auto found = kParts.find(implementer << 12 | part);
  return found == kParts.end() ? "unknown" : found->second;
}

}  // namespace edge::arch
