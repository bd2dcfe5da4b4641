"""Reading hot loops from an object: which accesses are of the stack, and what a loop's own code is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.arm.failure import run
from benchmarks.arm.hot_loops import judged_file
from benchmarks.arm.loops import HotLoop, hot_loops

pytestmark = pytest.mark.slow

FUSED = {"aarch64": "fmla v0.4s, v1.4s, v2.s[0]\n" * 4, "arm": "vmla.f32 q0, q1, d4[0]\n" * 4}
ENDS = {"aarch64": "subs x0, x0, 1\n b.ne 1b\n", "arm": "subs r0, r0, #1\n bne 1b\n"}


def assembled(arch: str, before: str, inside: str, folder: Path) -> Path:
    """Return an object with one loop of four multiply-accumulates."""
    source, made = folder / "loop.S", folder / "loop.o"
    head = ".arm\n.fpu neon\n" if arch == "arm" else ""
    body = f"{before}\n1: {inside}\n{FUSED[arch]}{ENDS[arch]}"
    source.write_text(f"{head}.globl f\n.type f, %function\nf:\n{body}")
    target = {"aarch64": "aarch64-freestanding-none", "arm": "arm-freestanding-eabihf"}[arch]
    options = ["-mcpu=cortex_a9"] if arch == "arm" else []
    run([sys.executable, "-m", "ziglang", "cc", "-target", target, *options, "-c", "-o", made, source])
    return made


def the_loop(arch: str, before: str, inside: str, folder: Path) -> HotLoop:
    (found,) = hot_loops(assembled(arch, before, inside, folder))
    assert found.multiply_accumulates == found.products == 4
    return found


@pytest.mark.parametrize(
    "arch, before, inside, spills",
    [
        ("aarch64", "", "ldr q1, [sp, 16]", 1),
        ("aarch64", "", "stp q1, q2, [sp, 32]", 1),
        ("aarch64", "add x9, sp, 16", "ldr q1, [x9]", 1),
        ("aarch64", "add x9, sp, 16", "ldr q1, [x8]", 0),
        # The register is another one by then.
        ("aarch64", "add x9, sp, 16\n ldp x8, x9, [x1]", "ldr q1, [x9]", 0),
        ("aarch64", "add x9, sp, 16\n mov x9, x2", "ldr q1, [x9]", 0),
        ("arm", "", "vldmia sp, {d2, d3}", 1),
        ("arm", "add r3, sp, #16", "vld1.64 {d2, d3}, [r3:128]", 1),
        ("arm", "add r3, sp, #16", "vst1.64 {d2, d3}, [r3:128]!", 1),
        ("arm", "add r3, sp, #16\n ldr r3, [r1]", "vld1.64 {d2, d3}, [r3:128]", 0),
    ],
)
def test_vectors_on_the_stack_are_found(
    arch: str, before: str, inside: str, spills: int, tmp_path: Path
) -> None:
    loop = the_loop(arch, before, inside, folder=tmp_path)
    assert (loop.vector_spills, loop.scalar_spills) == (spills, 0)


def test_a_loop_counter_on_the_stack_is_no_vector(tmp_path: Path) -> None:
    loop = the_loop("aarch64", "", "ldr x9, [sp, 8]", folder=tmp_path)
    assert (loop.vector_spills, loop.scalar_spills) == (0, 1)


def test_the_code_around_an_inner_loop_is_not_its_own(tmp_path: Path) -> None:
    outer = "2: ldr q1, [sp]"
    made = assembled("aarch64", outer, "nop", tmp_path)
    source = tmp_path / "loop.S"
    source.write_text(source.read_text() + "subs x2, x2, 1\n b.ne 2b\n bl f\n ret\n")
    run(
        [
            sys.executable,
            "-m",
            "ziglang",
            "cc",
            "-target",
            "aarch64-freestanding-none",
            "-c",
            "-o",
            made,
            source,
        ]
    )
    (loop,) = hot_loops(made)
    assert (len(loop.body), loop.vector_spills, loop.calls) == (7, 0, 0)


def test_without_a_model_there_is_no_share(tmp_path: Path) -> None:
    (loop,) = judged_file(assembled("aarch64", "", "nop", tmp_path), "cortex-a53")
    assert loop.share is None
    (modelled,) = judged_file(tmp_path / "loop.o", "cortex-a72")
    assert modelled.share is not None and modelled.share < 0.5  # each waits for the one before
