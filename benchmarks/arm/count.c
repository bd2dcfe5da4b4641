// A plugin of qemu's user mode (API version 1: qemu 4.2 to 8.2): the instructions that a program executes
// between two marks. A mark is what any program can send, in any language: close(0x770001), and 0x770002.
//
//   qemu-aarch64 -plugin count.so,out=FILE PROGRAM …
//
// FILE gets, at the second mark, this process's memory map, an empty line, and for each block of code that ran
// between the marks: its host address, its instructions, its multiply-accumulates, how often it ran.
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Debian ships no qemu-plugin.h: what is used of it.
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct {
  const char* target_arch;
} qemu_info_t;  // the first of its members
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
typedef void (*translated_t)(qemu_plugin_id_t, struct qemu_plugin_tb*);
typedef void (*called_t)(qemu_plugin_id_t, unsigned cpu, int64_t number, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t, uint64_t);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb*, size_t);
const void* qemu_plugin_insn_data(const struct qemu_plugin_insn*);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn*);
void* qemu_plugin_insn_haddr(const struct qemu_plugin_insn*);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, translated_t);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb*, enum qemu_plugin_op, void*, uint64_t);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, called_t);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

// One translated block; there is one more each time that qemu translates it anew.
struct block {
  struct block* next;
  const void* code;
  uint64_t runs, runs_before;
  unsigned instructions, multiply_accumulates;
};
static struct block* blocks;  // translation holds a lock of qemu's
static const char* out;
static bool arm;

static bool is_a64(uint32_t word) {
  return (word & 0xBF20FC00) == 0x0E20CC00     // fmla, fmls: vectors
         || (word & 0xBF80B400) == 0x0F801000  // by element
         || (word & 0xFF000000) == 0x1F000000; // fmadd and its kind: scalars
}

static bool is_a32(uint32_t word) {
  const bool always = word >> 28 == 15;
  return (word & 0xFF900F10) == 0xF2000D10                 // vmla, vmls: vectors
         || (word & 0xFF900F10) == 0xF2000C10              // vfma, vfms
         || (word & 0xFEB00B50) == 0xF2A00140              // vmla, vmls by element
         || (!always && (word & 0x0FB00E10) == 0x0E000A00) // scalars
         || (!always && (word & 0x0FB00E10) == 0x0EA00A00);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb* tb) {
  (void)id;
  struct block* block = calloc(1, sizeof *block);
  if (block == NULL) abort();
  block->instructions = qemu_plugin_tb_n_insns(tb);
  block->code = qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(tb, 0));
  for (size_t i = 0; i < block->instructions; ++i) {
    const struct qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(tb, i);
    uint32_t word;
    if (qemu_plugin_insn_size(instruction) != sizeof word) continue;
    memcpy(&word, qemu_plugin_insn_data(instruction), sizeof word);
    block->multiply_accumulates += arm ? is_a32(word) : is_a64(word);
  }
  block->next = blocks;
  blocks = block;
  qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &block->runs, 1);
}

static void report(void) {
  FILE* file = fopen(out, "w");
  FILE* maps = fopen("/proc/self/maps", "r");
  if (file == NULL || maps == NULL) return perror(out);
  for (int c; (c = getc(maps)) != EOF;) putc(c, file);
  putc('\n', file);
  for (const struct block* block = blocks; block != NULL; block = block->next) {
    const uint64_t runs = block->runs - block->runs_before;
    if (runs == 0) continue;
    fprintf(file, "%" PRIxPTR " %u %u %" PRIu64 "\n", (uintptr_t)block->code, block->instructions,
            block->multiply_accumulates, runs);
  }
  fclose(maps);
  if (fclose(file) != 0) perror(out);
}

static void called(qemu_plugin_id_t id, unsigned cpu, int64_t number, uint64_t argument, uint64_t b, uint64_t c,
                   uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
  (void)id, (void)cpu, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
  if (number != (arm ? 6 : 57)) return;  // Linux's numbers of close
  if (argument == 0x770001) {
    for (struct block* block = blocks; block != NULL; block = block->next) block->runs_before = block->runs;
  } else if (argument == 0x770002) {
    report();
  }
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc, char** argv) {
  arm = strcmp(info->target_arch, "arm") == 0;
  for (int i = 0; i < argc; ++i) {
    if (strncmp(argv[i], "out=", 4) == 0) out = strdup(argv[i] + 4);
  }
  if (out == NULL) return fprintf(stderr, "count: out=FILE is missing\n"), 1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_vcpu_syscall_cb(id, called);
  return 0;
}
