"""What is read from the compiler's output."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from toolchain.errors import ToolchainError
from toolchain.testbeds.mali.statistics import Block, KernelStatistics, read_statistics

RECORDED = Path(__file__).parent / "recorded"
COUNTS = (
    "SHADER-DB: MESA_SHADER_KERNEL shader: 221 inst, 129 bundles, 167 quadwords, 16 registers, 1 threads, "
    "3 loops, 12:13 spills:fills\n"
)
LISTING = """block0: {
\tLD_UBO.64 R1.u32.x, _, _, _, _

\tvadd.MOV R1.u64.x, R1.u32.x
\tvmul.FMUL R2.f32.xyz, R1.f32.xyz, R1.f32.xyz
} ->  block1  from { }

block1: {
\tTEX barrier

\tlut.MOV R0.u64.y, R0.u32.z
} ->  block1  block2  from { block0 block1 }

block2: {
} from { block1 }
"""


def test_counts_blocks_and_loops() -> None:
    statistics = read_statistics(f"NIR and more\n{LISTING}\nassembly\n{COUNTS}")
    assert statistics == KernelStatistics(
        16, 221, 129, 167, 12, 13, 64, (Block(1, 1, 0, 3), Block(1, 0, 1, 0), Block()), ((1, 1),)
    )


def test_reads_the_last_version_of_a_kernel() -> None:
    """Mesa schedules again after it spilled; the first listing is not what runs."""
    first = LISTING.replace("TEX barrier", "LD_64 R1")
    assert read_statistics(first + COUNTS + LISTING + COUNTS) == read_statistics(LISTING + COUNTS)


@pytest.mark.parametrize(
    ("step", "counts", "loops"), [("bind", (4, 256), 7), ("unroll", (13, 64), 1), ("vectorize", (16, 64), 1)]
)
def test_recorded_output(step: str, counts: tuple[int, int], loops: int) -> None:
    statistics = read_statistics((RECORDED / f"{step}.txt").read_text())
    assert (statistics.registers, statistics.resident) == counts
    assert (statistics.spills, statistics.fills, len(statistics.loops)) == (0, 0, loops)
    assert sum(block.load_store for block in statistics.blocks) > 0


def test_it_survives_json() -> None:
    statistics = read_statistics((RECORDED / "bind.txt").read_text())
    assert KernelStatistics.from_json(json.loads(json.dumps(asdict(statistics)))) == statistics


@pytest.mark.parametrize("text", ["", COUNTS, LISTING])
def test_refuses_incomplete_output(text: str) -> None:
    with pytest.raises(ToolchainError, match="no statistics"):
        read_statistics(text)


def test_register_exhaustion_is_reported() -> None:
    text = f"{LISTING}ERROR: Failed to choose spill node\n{COUNTS.replace('16 reg', '0 reg')}"
    with pytest.raises(ToolchainError, match="registers do not suffice") as caught:
        read_statistics(text)
    assert "smaller tile" in caught.value.hint
