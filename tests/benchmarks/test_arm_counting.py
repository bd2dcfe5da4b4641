"""Counting under qemu: every instruction between the marks, none twice, and where it was."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.arm import ours
from benchmarks.arm.counting import Count, build_plugin, by_file, by_function, count, total
from benchmarks.arm.failure import ArmError, run
from tests.building.network import written
from toolchain.linking.zig import zig_cache_environment

TURNS = 1000
CORES = {"aarch64": "cortex-a72", "armv7": "cortex-a9"}
# Each turn has three multiply-accumulates among its five instructions. Before the loop its counter is set,
# and after it four instructions make the mark.
AROUND = 1 + 4
SOURCE = {
    "aarch64": f"""
    .macro close number
        mov w0, \\number
        movk w0, 0x77, lsl 16
        mov w8, 57
        svc 0
    .endm
    .globl _start
_start: close 1
        mov w9, {TURNS}
1:      fmla v0.4s, v1.4s, v2.4s
        fmla v0.4s, v1.4s, v2.s[1]
        fmadd s3, s4, s5, s3
        subs w9, w9, 1
        b.ne 1b
        close SECOND
        mov w0, 0
        mov w8, 93
        svc 0
""",
    "armv7": f"""
    .arm
    .fpu neon
    .macro close number
        movw r0, #\\number
        movt r0, #0x77
        mov r7, #6
        svc 0
    .endm
    .globl _start
_start: close 1
        mov r4, #{TURNS}
1:      vmla.f32 q0, q1, q2
        vmla.f32 q0, q1, d0[1]
        vmla.f32 s8, s9, s10
        subs r4, r4, #1
        bne 1b
        close SECOND
        mov r0, #0
        mov r7, #1
        svc 0
""",
}
ZIG = {"aarch64": "aarch64-freestanding-none", "armv7": "arm-freestanding-eabihf"}


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the plugin; zig, which compiles it and the programs, finds what it has compiled before."""
    if (emulator := shutil.which("qemu-aarch64")) and b"-plugin" not in subprocess.check_output(
        [emulator, "--help"], timeout=60
    ):
        pytest.skip("this system's qemu-user takes no plugins, as that of Debian 13")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in zig_cache_environment().items():
            patch.setenv(name, value)
        yield build_plugin(tmp_path_factory.mktemp("plugin"))


def program(arch: str, second: int, folder: Path) -> Path:
    """Return a program without a C library, whose second mark is of that number."""
    source, made = folder / "program.S", folder / "program"
    source.write_text(SOURCE[arch].replace("SECOND", str(second)))
    cpu = f"-mcpu={CORES[arch].replace('-', '_')}"
    run([sys.executable, "-m", "ziglang", "cc", "-target", ZIG[arch], cpu, "-nostdlib", "-o", made, source])
    return made


@pytest.mark.slow
@pytest.mark.parametrize("arch", list(CORES))
def test_every_instruction_between_the_marks_counts_once(arch: str, plugin: Path, tmp_path: Path) -> None:
    blocks = count(plugin, arch, CORES[arch], tmp_path, [program(arch, 2, tmp_path)])
    assert total(blocks) == Count(5 * TURNS + AROUND, 3 * TURNS)
    assert set(by_file(blocks)) == {"program"}


def test_a_program_without_a_second_mark_is_refused(plugin: Path, tmp_path: Path) -> None:
    with pytest.raises(ArmError, match="never closed 0x770002"):
        count(plugin, "aarch64", "cortex-a72", tmp_path, [program("aarch64", 3, tmp_path)])


def test_a_program_that_fails_says_so(plugin: Path, tmp_path: Path) -> None:
    with pytest.raises(ArmError, match="qemu-aarch64"):
        count(plugin, "aarch64", "cortex-a72", tmp_path, [tmp_path / "no-such-program"])


def test_a_missing_emulator_says_what_to_type(
    plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = program("aarch64", 2, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ArmError, match=r"deps\.sh counts"):
        count(plugin, "aarch64", "cortex-a72", tmp_path, [made])


@pytest.mark.slow
def test_a_network_is_right_and_taken_apart_by_layer(plugin: Path, tmp_path: Path) -> None:
    built = ours.build(written(tmp_path), "pynq", None, tmp_path)
    blocks, error = ours.count_ours(plugin, built, tmp_path)
    assert error < 1e-5
    layers = by_function(blocks, built.library, built.objects[0])
    library = by_file(blocks)[built.library.name]
    assert sum(layers.values(), Count(0, 0)) == library
    assert {name for name in layers if name.startswith("fused_conv2d")}
    # At 6 x 6: 8 outputs of 27 products, 8 of 9, and three times 8 of 8; at most four with one instruction.
    assert library.multiply_accumulates >= 36 * (8 * 27 + 8 * 9 + 3 * 64) / 4
