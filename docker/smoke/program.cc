// Prints 5050. Needs the C++ library, threads and exceptions, as programs for boards do.
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

int main() {
  std::vector<int> numbers(100);
  std::thread([&] { std::iota(numbers.begin(), numbers.end(), 1); }).join();
  try {
    throw std::runtime_error(std::to_string(std::accumulate(numbers.begin(), numbers.end(), 0)));
  } catch (const std::exception& caught) {
    std::cout << caught.what() << '\n';
  }
}
