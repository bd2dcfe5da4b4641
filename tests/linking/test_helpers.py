"""The helpers of armv7 on a real range of numbers: run under qemu, compared with exact arithmetic."""

from __future__ import annotations

import math
import random
import struct
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from toolchain.architectures.table import ARCHITECTURES
from toolchain.boards.emulation.qemu import emulator
from toolchain.linking.linker import _compile
from toolchain.linking.symbols import object_symbols
from toolchain.linking.zig import run_zig, zig_cache_environment
from toolchain.profiles import load_profile

ARM = ARCHITECTURES["armv7a"]
CASES = 20_000
# Reads pairs of 64-bit numbers, and writes for each what LLVM's code makes of them: it calls the helpers.
PROGRAM = r"""
#include <stdint.h>
#include <string.h>
extern int read(int, void*, unsigned); extern int write(int, const void*, unsigned);
extern uint64_t __aeabi_llsl(uint64_t, int), __aeabi_llsr(uint64_t, int), __aeabi_lmul(uint64_t, uint64_t);
extern int64_t __aeabi_lasr(int64_t, int);
extern int32_t __aeabi_idiv(int32_t, int32_t);
extern uint32_t __aeabi_uidiv(uint32_t, uint32_t);
typedef struct { int64_t a, b; } In;
typedef struct {
  int64_t q, r; uint64_t uq, ur; int32_t iq, ir; uint32_t iuq, iur;
  double d, ud; float f, uf; int64_t from_d, from_f; uint64_t ufrom_d, ufrom_f;
  uint64_t shl, shr; int64_t sar; uint64_t mul;
} Out;
static int all(int (*step)(int, void*, unsigned), int fd, void* at, unsigned size) {
  for (unsigned done = 0; done < size;) {
    int n = step(fd, (char*)at + done, size - done);
    if (n <= 0) return 0;
    done += n;
  }
  return 1;
}
int main(void) {
  In in;
  while (all(read, 0, &in, sizeof(in))) {
    volatile int64_t a = in.a, b = in.b;
    volatile int32_t i = (int32_t)in.a, j = (int32_t)in.b;
    double d; float f; int32_t bits = (int32_t)in.b;
    memcpy(&d, &in.a, 8); memcpy(&f, &bits, 4);
    Out out = {0};
    if (!(a == INT64_MIN && b == -1)) { out.q = a / b; out.r = a % b; }
    out.uq = (uint64_t)a / (uint64_t)b; out.ur = (uint64_t)a % (uint64_t)b;
    if (j != 0 && !(i == INT32_MIN && j == -1)) { out.iq = __aeabi_idiv(i, j); out.ir = i % j; }
    if (j != 0) { out.iuq = __aeabi_uidiv(i, j); out.iur = (uint32_t)i % (uint32_t)j; }
    out.d = (double)a; out.ud = (double)(uint64_t)a; out.f = (float)a; out.uf = (float)(uint64_t)a;
    out.from_d = (int64_t)d; out.from_f = (int64_t)f; out.ufrom_d = (uint64_t)d; out.ufrom_f = (uint64_t)f;
    int by = (int)((uint64_t)b & 63);
    out.shl = __aeabi_llsl(a, by); out.shr = __aeabi_llsr(a, by); out.sar = __aeabi_lasr(a, by);
    out.mul = __aeabi_lmul(a, b);
    if (!all((int (*)(int, void*, unsigned))write, 1, &out, sizeof(out))) return 1;
  }
  return 0;
}
"""
OUT = struct.Struct("<qq QQ ii II dd ff qq QQ QQ q Q")


def wrap(value: int, bits: int, signed: bool = True) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def truncated(a: int, b: int) -> tuple[int, int]:
    """Return quotient and remainder as C has them."""
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient, a - quotient * b


def rounded_float(value: int) -> float:
    """Return the float32 nearest to an integer, ties to even."""
    near = np.float32(value)  # perhaps rounded twice
    around = (np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf)))
    return float(min(around, key=lambda f: (abs(Fraction(float(f)) - value), int(f.view(np.uint32)) & 1)))


def saturated(value: float, least: int, most: int) -> int:
    if math.isnan(value):
        return 0
    return max(least, min(most, math.trunc(value))) if math.isfinite(value) else (least, most)[value > 0]


def expected(a: int, b: int) -> tuple[float | int, ...]:
    i, j = wrap(a, 32), wrap(b, 32)
    ua, ub, ui, uj = (wrap(v, n, False) for v, n in ((a, 64), (b, 64), (i, 32), (j, 32)))
    (double,) = struct.unpack("<d", struct.pack("<q", a))
    (single,) = struct.unpack("<f", struct.pack("<i", j))
    by = ub & 63
    signed, unsigned = (-(2**63), 2**63 - 1), (0, 2**64 - 1)
    return (
        *((0, 0) if (a, b) == (-(2**63), -1) else truncated(a, b)),
        *divmod(ua, ub),
        *((0, 0) if j == 0 or (i, j) == (-(2**31), -1) else truncated(i, j)),
        *((0, 0) if j == 0 else divmod(ui, uj)),
        *(float(a), float(ua), rounded_float(a), rounded_float(ua)),
        *(saturated(double, *signed), saturated(single, *signed)),
        *(saturated(double, *unsigned), saturated(single, *unsigned)),
        *(wrap(ua << by, 64, False), ua >> by, a >> by, wrap(a * b, 64, False)),
    )


def numbers() -> list[tuple[int, int]]:
    """Return pairs of all sizes, those at the edges among them; no second one is 0."""
    generator = random.Random(7)
    # The last two lie halfway between two float32, where one bit far below decides.
    sizes = (0, 1, 2**24, 2**31, 2**32, 2**53, 2**63, 2**62 + 2**38, 2**63 + 2**39)
    edges = [sign * size + by for size in sizes for sign in (1, -1) for by in (-1, 0, 1)]
    # As doubles: 0.5, -1.5, 2^52, 2^62, 2^63, -2^63, 2^64, infinities.
    floats = (0.5, -1.5, 2.0**52, 2.0**62, 2.0**63, -(2.0**63), 2.0**64, math.inf, -math.inf, 1e300, -1e-300)
    edges += [struct.unpack("<q", struct.pack("<d", value))[0] for value in floats]
    edges = [wrap(value, 64) for value in edges]

    def any_size() -> int:
        return wrap(generator.getrandbits(64) >> generator.randrange(64), 64) * generator.choice((1, -1))

    def as_double() -> int:
        value = math.ldexp(generator.uniform(-1, 1), generator.randrange(-2, 66))
        return int(struct.unpack("<q", struct.pack("<d", value))[0])

    def as_single() -> int:
        value = math.ldexp(generator.uniform(-1, 1), generator.randrange(-2, 66))
        return int(struct.unpack("<i", struct.pack("<f", value))[0])

    pairs = [(a, b) for a in edges for b in edges]
    pairs += [(any_size(), any_size()) for _ in range(CASES // 2)]
    pairs += [(as_double(), as_single()) for _ in range(CASES // 2)]
    return [(wrap(a, 64), wrap(b, 64) or 1) for a, b in pairs]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("helpers")
    (folder / "calls.c").write_text(PROGRAM)
    target = ["-target", ARM.zig_target + ".2.27", "-mcpu=cortex_a9"]
    flags = [*target, "-O2", "-fno-sanitize=all", "-fno-builtin"]
    executable = folder / "calls"
    helpers = str(_compile(ARM))
    done = run_zig(
        ["cc", *flags, str(folder / "calls.c"), helpers, "-o", str(executable)], 120, zig_cache_environment()
    )
    assert done.returncode == 0, done.output
    return executable


@pytest.mark.slow
def test_helpers_compute_like_c(program: Path) -> None:
    pairs = numbers()
    assert len(pairs) > CASES
    operands = b"".join(struct.pack("<qq", *pair) for pair in pairs)
    command = [*emulator(load_profile("pynq")), str(program)]
    done = subprocess.run(command, input=operands, capture_output=True, timeout=60, check=True)
    results = list(OUT.iter_unpack(done.stdout))
    assert len(results) == len(pairs)
    for pair, result in zip(pairs, results, strict=True):
        assert result == expected(*pair), pair


def test_helpers_are_self_contained_and_small() -> None:
    helpers = _compile(ARM)
    symbols = object_symbols([helpers])
    assert not symbols.undefined
    assert {"__aeabi_idiv", "__aeabi_uldivmod", "__aeabi_l2f"} <= symbols.defined
    assert all(name.startswith("__aeabi_") for name in symbols.defined)
    assert helpers.stat().st_size < 8192
