#include "rates/command.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apart.h"
#include "arch/arch.h"
#include "cpu.h"
#include "edge_rt.h"
#include "failure.h"
#include "lock.h"
#include "machine.h"
#include "queue.h"
#include "rates/bursts.h"
#include "rates/caches.h"
#include "rates/products.h"
#include "rates/reading.h"
#include "text.h"

namespace edge::rates {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 3, kPatience = 60;  // by default: in all; until it is given up
constexpr double kLeast = 0.01;                 // seconds of one measurement
constexpr double kPiece = 5e-5;                 // seconds of a piece of work: what the clock costs is nothing beside it
constexpr size_t kMostAnswer = 64 << 10;
// Where the system does not tell the size of a cache: what most cores have at least.
constexpr size_t kL1 = 16 << 10, kL2 = 256 << 10;
constexpr size_t kLeastMemory = size_t{64} << 20, kMostMemory = size_t{512} << 20;

// The cores of one kind, one CPU of each.
struct Cluster {
  std::string core;
  std::vector<int> cpus;
};

std::vector<Cluster> Clusters() {
  std::vector<Cluster> clusters;
  std::set<int> taken;
  for (const Cpu& cpu : Cpus()) {
    if (!taken.insert(cpu.physical).second) continue;
    auto mine = std::find_if(clusters.begin(), clusters.end(), [&](const Cluster& each) { return each.core == cpu.core; });
    if (mine == clusters.end()) mine = clusters.insert(clusters.end(), {cpu.core, {}});
    mine->cpus.push_back(cpu.id);
  }
  return clusters;
}

// Repeats of `once`, whose work is `each`, until a piece is long enough.
template <typename Once>
Work Pieces(Once once, double each) {
  int64_t repeats = 1;
  for (;; repeats *= 2) {
    const auto begin = Clock::now();
    once(repeats);
    if (std::chrono::duration<double>(Clock::now() - begin).count() >= kPiece) break;
  }
  return [=] {
    once(repeats);
    return each * static_cast<double>(repeats);
  };
}

Rate Multiplied(const std::vector<int>& cpus, double seconds, const Products& products) {
  return BestRate(cpus, seconds, [&](int) { return Pieces(products.run, products.operations); });
}

// Memory of this process alone, in pages as the system gives them to networks, too.
class Buffer {
 public:
  explicit Buffer(size_t bytes) : bytes_(bytes) {
    void* got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) throw Io("cannot get " + std::to_string(bytes >> 20) + " MiB of memory to read");
    data_ = static_cast<char*>(got);
    std::memset(data_, 1, bytes);  // else every page would be the kernel's one page of zeros
  }
  ~Buffer() { munmap(data_, bytes_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const char* data() const { return data_; }

 private:
  size_t bytes_;
  char* data_;
};

// Bytes per second of reading `bytes` in a circle in each thread.
Rate ReadAgain(const std::vector<int>& cpus, double seconds, size_t bytes) {
  const Read read = ReadHere();
  return BestRate(cpus, seconds, [&](int) {
    const auto buffer = std::make_shared<Buffer>(bytes);
    const size_t each = std::min(bytes, kL1);
    const auto at = std::make_shared<size_t>(0);
    return Pieces(
        [=](int64_t repeats) {
          for (int64_t i = 0; i < repeats; ++i) {
            read(buffer->data() + *at, each);
            *at = *at + 2 * each <= bytes ? *at + each : 0;
          }
        },
        static_cast<double>(each));
  });
}

// What is read to measure a level: its name, and bytes for each thread.
struct Level {
  const char* name;
  size_t bytes;
};

constexpr size_t Rounded(size_t bytes) { return std::max(kL1, bytes / kL1 * kL1); }

std::vector<Level> Levels(const Caches& caches, size_t threads) {
  const size_t l1 = caches.l1 != 0 ? caches.l1 : 2 * kL1, l2 = caches.l2 != 0 ? caches.l2 : kL2;
  std::vector<Level> levels = {{"l1", Rounded(l1 / 2)}, {"l2", Rounded(std::max(l2 / 2, 2 * l1))}};
  // Well beyond what the second cache keeps, and within what the third one has for each thread.
  const size_t third = std::min(caches.l3 / 2 / threads, 4 * l2);
  if (2 * third > 3 * l2) levels.push_back({"l3", Rounded(third)});
  // A 32-bit system may have more free memory than a size_t counts.
  const uint64_t there = static_cast<uint64_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  // Caches keep some of what is read in a circle, unless it is much larger.
  const size_t wanted = std::clamp(8 * std::max(caches.l3, l2 * threads), kLeastMemory, kMostMemory);
  levels.push_back({"memory", Rounded(static_cast<size_t>(std::min<uint64_t>(wanted, there / 8)) / threads)});
  return levels;
}

// With as many threads as there are CPUs: operations per second by type and name, bytes per second by level.
std::string Measured(const std::vector<int>& cpus, const Caches& caches, const std::vector<Products>& products,
                     double seconds) {
  std::string made, read;
  double shares = 0;
  const std::vector<Level> levels = Levels(caches, cpus.size());
  for (const Products& each : products) {
    const Rate rate = Multiplied(cpus, seconds, each);
    shares += rate.share;
    made += (made.empty() ? "" : ", ") + ("{\"name\": " + Quote(each.name)) + ", \"type\": " + Quote(each.type) +
            ", \"gops\": " + JsonNumber(rate.best / 1e9) + "}";
  }
  for (const Level& each : levels) {
    const Rate rate = ReadAgain(cpus, seconds, each.bytes);
    shares += rate.share;
    read += (read.empty() ? "" : ", ") + ("{\"name\": " + Quote(each.name)) + ", \"kib\": " + std::to_string(each.bytes >> 10) +
            ", \"gb_s\": " + JsonNumber(rate.best / 1e9) + "}";
  }
  const double share = shares / static_cast<double>(products.size() + levels.size());
  return "{\"threads\": " + std::to_string(cpus.size()) + ", \"cpu_share\": " + JsonNumber(share) + ", \"products\": [" + made + "], \"reads\": [" + read + "]}";
}

std::string KiB(size_t bytes) { return bytes == 0 ? "null" : std::to_string(bytes >> 10); }

std::string Probe(const std::vector<Cluster>& clusters, double seconds) {
  const std::vector<Products> products = ProductsHere();
  size_t measurements = 0;
  for (const Cluster& each : clusters) measurements += (each.cpus.size() > 1 ? 2 : 1) * (products.size() + 4);
  const double share = std::max(kLeast, seconds / static_cast<double>(std::max<size_t>(1, measurements)));
  std::string list;
  const std::optional<std::string> family = arch::Family();
  for (const Cluster& each : clusters) {
    const Caches caches = CachesOf(each.cpus.front());
    const std::string one = Measured({each.cpus.front()}, caches, products, share);
    const std::string all = each.cpus.size() > 1 ? Measured(each.cpus, caches, products, share) : one;
    list += (list.empty() ? "" : ", ") + ("{\"core\": " + Quote(each.core)) + ", \"cores\": " +
            std::to_string(each.cpus.size()) + ", \"l1_kib\": " + KiB(caches.l1) + ", \"l2_kib\": " + KiB(caches.l2) +
            ", \"l3_kib\": " + KiB(caches.l3) + ", \"one\": " + one + ", \"all\": " + all + "}";
  }
  return "{\"version\": " + Quote(Version()) + ", \"fingerprint\": " + Quote(Fingerprint()) + ", \"family\": " + (family ? Quote(*family) : "null") + ", \"clusters\": [" + list + "]}";
}

}  // namespace

int ProbeCommand(const Options& options) {
  options.NoMore();
  const double seconds = options.Seconds("time", kSeconds), patience = options.Seconds("timeout", kPatience);
  const std::vector<Cluster> clusters = Clusters();
  const MeasureLock lock(options.State(true), "probe", options.Seconds("wait", 0), ForWhom(options));
  // Apart: it ends in time, and where this CPU does not do what it says it can, that is an error to be told.
  const Ended ended = RunApart([&] { return Probe(clusters, seconds); }, patience, kMostAnswer);
  if (!ended.in_time) {
    throw Failure(EDGE_FAILED, "timeout", "the probe did not end within " + JsonNumber(patience) + " s; give it longer: --timeout S");
  }
  if (ended.signal != 0) {
    throw Failure(EDGE_FAILED, "probe", std::string("the probe ended by a signal: ") + strsignal(ended.signal));
  }
  if (ended.code != 0 || !ended.answer.ends_with("}")) {
    throw Failure(EDGE_FAILED, "probe", "the probe failed: other programs keep the CPUs busy, or there is no memory for it to read (up to an eighth of what is free)");
  }
  std::printf("%s\n", ended.answer.c_str());
  return EDGE_OK;
}

}  // namespace edge::rates
