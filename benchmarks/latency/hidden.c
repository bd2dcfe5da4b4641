/* Hides AVX-512, VNNI and AMX from a library whose cpuid instructions hidden.py has replaced by breakpoints:
 * each of them (int3, nop) ends here, where the true answer is given without those features.
 * Numbers of bits: Intel SDM, vol. 2, CPUID, leaf 7. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

#define BIT(n) (1u << (n))

static void answer(int number, siginfo_t *info, void *given) {
  greg_t *registers = ((ucontext_t *)given)->uc_mcontext.gregs;
  unsigned leaf = registers[REG_RAX], sub = registers[REG_RCX], a, b, c, d;
  (void)number;
  (void)info;
  __cpuid_count(leaf, sub, a, b, c, d);
  if (leaf == 7 && sub == 0) {
    b &= ~(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31)); /* AVX-512 F … VL */
    c &= ~(BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14)); /* VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ */
    d &= ~(BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25)); /* … AMX, AVX-512 FP16 */
  } else if (leaf == 7 && sub == 1) {
    a &= ~(BIT(4) | BIT(5) | BIT(21) | BIT(23)); /* AVX-VNNI, AVX-512 BF16, AMX-FP16, AVX-IFMA */
    d &= ~(BIT(4) | BIT(5) | BIT(10) | BIT(19)); /* AVX-VNNI-INT8, NE-CONVERT, AVX-VNNI-INT16, AVX10 */
  }
  registers[REG_RAX] = a;
  registers[REG_RBX] = b;
  registers[REG_RCX] = c;
  registers[REG_RDX] = d;
}

__attribute__((constructor)) static void begin(void) {
  struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
  if (sigaction(SIGTRAP, &action, NULL) != 0) abort();
}
