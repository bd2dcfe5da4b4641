#include "rates/products.h"

#include <algorithm>
#include <string>

#include "arch/arch.h"
#include "text.h"

namespace edge::rates {

std::vector<Products> ProductsHere() {
  const std::vector<std::string> present = arch::CpuFeatures();
  std::vector<Products> found;
  for (const Products& each : ArchProducts()) {
    const std::vector<std::string> needs = Split(each.needs, ',');
    const bool there = std::all_of(needs.begin(), needs.end(), [&](const std::string& feature) {
      return std::count(present.begin(), present.end(), feature) != 0;
    });
    if (there) found.push_back(each);
  }
  return found;
}

}  // namespace edge::rates
