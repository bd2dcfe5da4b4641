/* A FAKE of the vendor's library for contiguous memory: pieces of a file, one behind the other. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned char* memory;
static size_t size, used;

void* cma_alloc(uint32_t bytes, uint32_t cached) {
  (void)cached;
  if (memory == NULL) {
    const int fd = open(getenv("FAKE_DRAM"), O_RDWR);
    size = (size_t)lseek(fd, 0, SEEK_END);
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
  }
  if (bytes > size - used) return NULL;
  void* data = memory + used;
  used += bytes;
  return data;
}

unsigned long cma_get_phy_addr(void* data) { return 0x30000000ul + (unsigned long)((unsigned char*)data - memory); }

void cma_free(void* data) {
  if ((unsigned char*)data == memory) used = 0;
}
