#include "rates/caches.h"

#include <cstdlib>

#include "text.h"

namespace edge::rates {

// "32K", "1024K", "32M": Linux, drivers/base/cacheinfo.c, writes K alone.
static size_t Bytes(const std::string& text) {
  char* end = nullptr;
  const unsigned long number = std::strtoul(text.c_str(), &end, 10);
  return static_cast<size_t>(number) << (*end == 'K' ? 10 : *end == 'M' ? 20 : 0);
}

Caches CachesOf(int cpu, const std::string& folder) {
  Caches caches;
  for (int index = 0; index < 16; ++index) {
    const std::string file = folder + "/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index);
    const auto level = FirstLine(file + "/level"), type = FirstLine(file + "/type"), size = FirstLine(file + "/size");
    if (!level) break;
    if (!type || !size || *type == "Instruction") continue;
    if (*level == "1") caches.l1 = Bytes(*size);
    if (*level == "2") caches.l2 = Bytes(*size);
    if (*level == "3") caches.l3 = Bytes(*size);
  }
  return caches;
}

}  // namespace edge::rates
