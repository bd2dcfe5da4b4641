// What candidates on trial may do to the process that measures them, beside their work. Without a C library:
// of that a board's class has only what kernels need.
#include <stdint.h>

typedef struct {
  int32_t type, padding;
  void **tensor;  // whose first member is the address of its data
} Argument;

static long system_call(long number, long a, long b, long c) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return result;
}

static void fill(void *begin, void *end, char byte) {
  for (volatile char *at = begin; at < (volatile char *)end; at++) *at = byte;
}

static char maps[1 << 16];

static uintptr_t hexadecimal(const char **at) {
  uintptr_t number = 0;
  for (;; ++*at) {
    if (**at >= '0' && **at <= '9') number = number * 16 + (**at - '0');
    else if (**at >= 'a' && **at <= 'f') number = number * 16 + (**at - 'a' + 10);
    else return number;
  }
}

static int contains(const char *line, const char *name) {
  for (; *line && *line != '\n'; line++) {
    int length = 0;
    while (name[length] && line[length] == name[length]) length++;
    if (!name[length]) return 1;
  }
  return 0;
}

// Puts the mapping around the 16 bytes at `kept`, or all writable ones whose name in /proc/self/maps contains
// `name`, to one byte.
static void fill_mapped(const char *name, const char *kept, char byte) {
  long file = system_call(2, (long)"/proc/self/maps", 0, 0), length = 0, part;
  while ((part = system_call(0, file, (long)(maps + length), sizeof(maps) - 1 - length)) > 0) length += part;
  for (const char *at = maps; *at;) {
    char *begin = (char *)hexadecimal(&at), *end = (at++, (char *)hexadecimal(&at));
    if (kept && begin <= kept && kept < end) fill(begin, (char *)kept, byte), fill((char *)kept + 16, end, byte);
    if (name && at[2] == 'w' && contains(at, name)) fill(begin, end, byte);
    while (*at && *at++ != '\n') {
    }
  }
}

static float *data(Argument *arguments, int which) { return *arguments[which].tensor; }

static void double_it(Argument *arguments) {
  for (int i = 0; i < 4; i++) data(arguments, 1)[i] = 2 * data(arguments, 0)[i];
}

static int hang(void) {
  for (;;) system_call(34, 0, 0, 0);  // pause: a loop would do the same, and keep a core busy
}

static int crash(void) { return *(volatile int *)8; }

static int spoil_heap(void) { return fill_mapped("[heap]", 0, 0x41), 0; }

// Zeros pass for an orderly end of much.
static int clear_program(void) { return fill_mapped("/edge-rt", 0, 0), 0; }

// As a loop with wrong bounds does. All of the mapping: at its begin and at its end lies what describes memory
// that is still to be handed out, so that it is noticed wherever the output lies.
static int spoil_around_output(Argument *arguments) { return fill_mapped(0, (char *)data(arguments, 1), -1), 0; }

static int spoil_arguments(Argument *arguments) {
  for (int which = 0; which < 2; which++) fill(arguments[which].tensor, arguments[which].tensor + 6, 0x41);
  return fill(arguments, arguments + 2, 0x41), 0;
}

static int smash_stack(void) {
  char here[8];
  return fill(here, here + 4096, 0x41), 0;
}

// As an endpoint does whose buffers were written over.
static int send_nonsense(void) {
  static const char words[] = "these bytes are no packet of any protocol";
  for (int file = 3; file < 64; file++) system_call(1, file, (long)words, sizeof(words));
  return 0;
}

// It is kept, for the candidates that follow.
static int spoil_input(Argument *arguments) {
  return fill(data(arguments, 0), data(arguments, 0) + 4, 0x41), 0;
}
