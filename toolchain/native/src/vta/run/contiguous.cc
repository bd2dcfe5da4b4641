#include "vta/run/contiguous.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "file.h"
#include "text.h"
#include "vta/config.h"
#include "vta/run/registers.h"

namespace edge::vta {
namespace {

constexpr uint64_t kPage = 4096;
constexpr double kMemoryPatience = 5;  // seconds for another process to end

uint64_t Pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

struct Udma {
  std::string name;
  uint64_t physical = 0, bytes = 0;
};

// Its driver had another name once. The first in the order of names.
std::vector<Udma> FindUdmas(const MemoryPlaces& places) {
  std::vector<Udma> found;
  for (const char* driver : {"/u-dma-buf", "/udmabuf"}) {
    const std::string folder = places.classes + driver;
    DIR* entries = opendir(folder.c_str());
    if (entries == nullptr) continue;
    for (const dirent* entry = readdir(entries); entry != nullptr; entry = readdir(entries)) {
      const std::string name = entry->d_name;
      const auto address = FirstLine(folder + "/" + name + "/phys_addr");
      const auto size = FirstLine(folder + "/" + name + "/size");
      if (name[0] == '.' || !address || !size) continue;
      const auto number = [](const std::string& text) { return std::strtoull(text.c_str(), nullptr, 0); };
      found.push_back({name, number(*address), number(*size)});
    }
    closedir(entries);
  }
  std::sort(found.begin(), found.end(), [](const Udma& a, const Udma& b) { return a.name < b.name; });
  return found;
}

// All of a device's memory belongs to this process while it is open: pages of it are handed out.
class UdmaMemory final : public Contiguous {
 public:
  UdmaMemory(const MemoryPlaces& places, const Udma& udma, bool coherent)
      : path_(places.devices + "/" + udma.name), udma_(udma) {
    const int uncached = coherent ? 0 : O_SYNC;
    fd_ = Fd(open(path_.c_str(), O_RDWR | O_CLOEXEC | uncached));
    if (!fd_) {
      throw Refusal("driver", path_ + " cannot be opened: " + std::strerror(errno) + "; run edge-rt as root");
    }
    if (!LockFile(fd_.get(), kMemoryPatience)) {
      throw Refusal("driver", "another process computes in the memory of " + path_ + ": end it, or try again later");
    }
    void* at = mmap(nullptr, udma.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (at == MAP_FAILED || udma.physical % kPage != 0) {
      const std::string why = at == MAP_FAILED ? std::strerror(errno) : "it does not begin a page";
      if (at != MAP_FAILED) munmap(at, udma.bytes);
      throw Refusal("driver", "the memory of " + path_ + " cannot be used: " + why);
    }
    data_ = static_cast<uint8_t*>(at);
  }
  ~UdmaMemory() final { munmap(data_, udma_.bytes); }

  std::shared_ptr<Buffer> Take(uint32_t bytes) final {
    const std::lock_guard lock(mutex_);
    const uint64_t wanted = Pages(bytes);
    uint64_t at = 0, free = 0, taken = 0;
    for (const auto& [begin, size] : taken_) {
      if (begin - at >= wanted) break;
      at = begin + size;
    }
    for (const auto& each : taken_) taken += each.second;
    free = udma_.bytes - taken;
    if (at + wanted > udma_.bytes) {
      throw Refusal("driver", "contiguous memory is exhausted: the program needs " + std::to_string(wanted) +
                                  " bytes at one place, " + path_ + " has " + std::to_string(udma_.bytes) +
                                  " and of these " + std::to_string(free) +
                                  " are free. Close other libraries, or give it more: modprobe u-dma-buf " +
                                  udma_.name + "=67108864");
    }
    taken_[at] = wanted;
    auto piece = std::make_shared<Piece>(this, at);
    piece->data = data_ + at;
    piece->physical = udma_.physical + at;
    return piece;
  }

 private:
  struct Piece final : Buffer {
    Piece(UdmaMemory* memory, uint64_t offset) : owner(memory), at(offset) {}
    ~Piece() final {
      const std::lock_guard lock(owner->mutex_);
      owner->taken_.erase(at);
    }
    UdmaMemory* owner;
    uint64_t at;
  };

  std::string path_;
  Udma udma_;
  Fd fd_;
  uint8_t* data_;
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> taken_;  // where pieces begin, and their bytes
};

// The library of PYNQ images up to about 2.6.
class CmaMemory final : public Contiguous {
 public:
  CmaMemory(void* library, bool coherent) : library_(library), cached_(coherent ? 1 : 0) {
    alloc_ = reinterpret_cast<decltype(alloc_)>(dlsym(library, "cma_alloc"));
    address_ = reinterpret_cast<decltype(address_)>(dlsym(library, "cma_get_phy_addr"));
    free_ = reinterpret_cast<decltype(free_)>(dlsym(library, "cma_free"));
  }
  ~CmaMemory() final { dlclose(library_); }
  bool IsWhole() const { return alloc_ != nullptr && address_ != nullptr && free_ != nullptr; }

  std::shared_ptr<Buffer> Take(uint32_t bytes) final {
    const std::lock_guard lock(mutex_);
    auto piece = std::make_shared<Piece>(this);
    void* data = alloc_(static_cast<uint32_t>(Pages(bytes)), cached_);
    if (data == nullptr) {
      throw Refusal("driver", "contiguous memory is exhausted: libcma.so has no " + std::to_string(bytes) +
                                  " bytes at one place. End what else uses it, or start Linux with more: cma=128M");
    }
    piece->data = static_cast<uint8_t*>(data);
    piece->physical = address_(data);
    return piece;
  }

 private:
  struct Piece final : Buffer {
    explicit Piece(CmaMemory* memory) : owner(memory) {}
    ~Piece() final {
      if (data == nullptr) return;
      const std::lock_guard lock(owner->mutex_);
      owner->free_(data);
    }
    CmaMemory* owner;
  };

  void* library_;
  uint32_t cached_;
  std::mutex mutex_;
  void* (*alloc_)(uint32_t bytes, uint32_t cached);
  unsigned long (*address_)(void* data);
  void (*free_)(void* data);
};

std::unique_ptr<CmaMemory> OpenLibrary(const MemoryPlaces& places, bool coherent) {
  void* library = dlopen(places.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto memory = std::make_unique<CmaMemory>(library, coherent);
  return memory->IsWhole() ? std::move(memory) : nullptr;
}

const char* const kNone =
    "there is no contiguous memory: no device of u-dma-buf (modprobe u-dma-buf udmabuf0=33554432), and no libcma.so";

}  // namespace

std::string ContiguousProblem(const MemoryPlaces& places) {
  const std::vector<Udma> udmas = FindUdmas(places);
  if (udmas.empty()) return OpenLibrary(places, true) == nullptr ? kNone : "";
  const std::string path = places.devices + "/" + udmas[0].name;
  return access(path.c_str(), R_OK | W_OK) == 0 ? "" : path + " may not be opened: run edge-rt as root";
}

std::unique_ptr<Contiguous> OpenContiguous(const MemoryPlaces& places, bool coherent) {
  const std::vector<Udma> udmas = FindUdmas(places);
  if (!udmas.empty()) return std::make_unique<UdmaMemory>(places, udmas[0], coherent);
  auto library = OpenLibrary(places, coherent);
  if (library == nullptr) throw Refusal("driver", kNone);
  return library;
}

}  // namespace edge::vta
