#include "vta/run/registers.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "file.h"
#include "vta/config.h"

namespace edge::vta {
namespace {

class Mapped final : public Registers {
 public:
  Mapped(const std::string& file, uint32_t base, uint32_t bytes) : file_(file), base_(base), bytes_(bytes) {
    fd_ = Fd(open(file.c_str(), O_RDWR | O_SYNC | O_CLOEXEC));
    if (!fd_) {
      throw Refusal("driver", file + " cannot be opened: " + std::strerror(errno) +
                                  "; run edge-rt as root: the accelerator's registers are there");
    }
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), base);
    if (at == MAP_FAILED) {
      throw Refusal("driver", "the accelerator's registers cannot be mapped from " + file + ": " + std::strerror(errno) +
                                  "; a kernel with CONFIG_STRICT_DEVMEM needs iomem=relaxed");
    }
    words_ = static_cast<volatile uint32_t*>(at);
  }
  ~Mapped() final { munmap(const_cast<uint32_t*>(words_), bytes_); }
  void Write(uint32_t address, uint32_t value) final { words_[(address - base_) / 4] = value; }
  uint32_t Read(uint32_t address) final { return words_[(address - base_) / 4]; }
  void Take(double seconds) final {
    if (!LockFile(fd_.get(), seconds)) {
      throw Refusal("driver", "another process has used the accelerator for a while now: end it, or try again later");
    }
  }
  void Release() final { flock(fd_.get(), LOCK_UN); }

 private:
  std::string file_;
  uint32_t base_, bytes_;
  Fd fd_;
  volatile uint32_t* words_;
};

}  // namespace

bool LockFile(int fd, double seconds) {
  using std::chrono::steady_clock;
  const auto until = steady_clock::now() + std::chrono::duration<double>(seconds);
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR && errno != EWOULDBLOCK) return true;  // a file system that knows no locks
    if (steady_clock::now() >= until) return false;
    usleep(1000);
  }
  return true;
}

std::unique_ptr<Registers> MapRegisters(const std::string& file, uint32_t base, uint32_t bytes) {
  return std::make_unique<Mapped>(file, base, bytes);
}

}  // namespace edge::vta
