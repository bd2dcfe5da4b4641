"""A station draws and packs operands as this host does, bit for bit, and refuses wrong steps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.tuners.c_function import CFunction
from tests.runtime.conftest import Edge
from tests.runtime.offline_folder import ACTS, resealed
from toolchain.arrays import Array
from toolchain.boards.inventory.lookup import local_board
from toolchain.runtime import expected_fingerprint
from toolchain.targets.target import target_for
from toolchain.tasks.candidate import Candidate, Entry
from toolchain.tasks.parameter import Parameter
from toolchain.tuning.boards.draws import Draw
from toolchain.tuning.builders.builder import LibraryBuilder
from toolchain.tuning.builders.host import HostCompilers
from toolchain.tuning.offline import plan
from toolchain.tuning.offline.blocks import block
from toolchain.tuning.offline.members import Member, Members
from toolchain.tuning.offline.operands import stored
from toolchain.tuning.offline.steps import PackingStep, followed, text
from toolchain.tuning.options import TuneOptions

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]
COPY = """Argument *arguments = b; char *from = (char *)data(arguments, 0), *to = (char *)data(arguments, 1);
for (int i = 0; i < %d; i++) to[i] = from[i]; return 0;"""
SHAPE = (6, 4, 5)
STEPS: list[tuple[PackingStep, ...]] = [
    (),
    (PackingStep("t", (2, 0, 1)),),
    (PackingStep("p", (0, 2, 1, 0, 0, 3)),),
    (
        PackingStep("r", (2, 3, 20)),
        PackingStep("t", (1, 2, 0)),
        PackingStep("p", (1, 0, 0, 0, 2, 2)),
        PackingStep("r", (480,)),
    ),
    (
        PackingStep("r", (1, 120)),
        PackingStep("p", (0, 0, 0, 8)),
        PackingStep("r", (4, 2, 16)),
        PackingStep("t", (2, 1, 0)),
    ),
]
DRAWS = [
    Draw(dtype, SHAPE, seed, exponent, edges)
    for dtype in ("float32", "float16")
    for seed, exponent, edges in (
        (0, 0, False),
        (1 << 16 | 3, 0, True),
        ((1 << 32) + 1, -16, False),
        (7, 8, True),
    )
]


def folder_of(root: Path, operands: list[tuple[str, Array, Member | None]]) -> Path:
    """Write a folder of candidates that copy an operand; each bit of the copy must be right."""
    folder = root / "folder"
    folder.mkdir()
    members, blocks = Members(folder, 1 << 30, 0), []
    compilers = HostCompilers(1)
    try:
        builder = LibraryBuilder(compilers, local_board().profile, root)
        for place, (line, value, member) in enumerate(operands):
            value = np.ascontiguousarray(value)
            kind = f"uint{8 * value.dtype.itemsize}"
            exact = stored(value.view(kind).astype(np.float64))
            code = CFunction(COPY % value.nbytes, before=f'#include "{ACTS}"')
            parameter = Parameter(value.shape, kind)
            (built,) = builder.build([Candidate(Entry("c", "", "0" * 64), code, (parameter, parameter), 1)])
            assert built.library is not None
            library = Member.of(built.library.read_bytes())
            assert members.add([library, exact, *([member] if member else [])], 0)
            first = block("candidate", f"c:{place}", 20, library.digest, built.function, "cpu", [])[0]
            shape = "x".join(map(str, value.shape))
            output = f"output {kind} {shape} {exact.digest} 0 0"
            blocks.append((first.format(digest=f"{place:064x}"), "case", line, output))
    finally:
        compilers.close()
    target = target_for(local_board().profile, None, 1)
    head = plan.head(expected_fingerprint(), target, TuneOptions(repeat=1, min_repeat_ms=0))
    (folder / plan.FILE).write_text(plan.text(head, members.sizes, blocks))
    return folder


def drawn(draw: Draw, steps: tuple[PackingStep, ...]) -> tuple[str, Array, None]:
    shape = "x".join(map(str, draw.shape))
    words = f"drawn {draw.dtype} {shape} {draw.seed} {draw.exponent} {int(draw.edges)} {text(steps)}"
    return words, followed(draw.values(), steps), None


def test_they_agree(native: Edge, tmp_path: Path) -> None:
    operands: list[tuple[str, Array, Member | None]] = [drawn(draw, ()) for draw in DRAWS]
    operands += [drawn(DRAWS[at % 2 * 4], steps) for at, steps in enumerate(STEPS)]
    for steps, dtype in zip(STEPS, (np.int8, np.uint16, np.int64, np.float32, np.int32), strict=True):
        value = np.arange(120).reshape(SHAPE).astype(dtype)
        member = stored(value)
        operands.append((f"stored {member.digest} {text(steps)}", followed(value, steps), member))
    folder = folder_of(tmp_path, operands)
    assert native("measure", folder, "--state", tmp_path / "rt")[0] == 0
    _head, *lines = map(json.loads, (folder / "results").read_text().splitlines())
    assert {line["message"]: None for line in lines} == {"": None} and len(lines) == len(operands)


@pytest.mark.parametrize(
    "steps",
    [
        "x",
        "r",
        "q6",
        "r6x4x6",
        "r6x4x5,",
        ",r6x4x5",
        "r6x4x5,,t0x1x2",
        "r6xx20",
        "r-6x-20",
        "r" + "1x" * 16 + "120",
        "r0x9223372036854775807",
        "t0x1",
        "t0x1x1",
        "t0x1x3",
        "t0x1x4294967298",
        "p0x0",
        "p0x0x0x0x0x0x0",
        "p0x0x0x0x0x9223372036854775807",
        "p0x0x0x0x0x268435456",
        "p0x0x0x0x0x-1",
    ],
)
def test_steps_that_cannot_be_taken(steps: str, native: Edge, plain: Path, tmp_path: Path) -> None:
    text_ = (plain / "plan").read_text()
    resealed(plain, text_.replace(" -\noutput", f" {steps}\noutput"))
    code, said = native("measure", plain, "--state", tmp_path / "rt")
    assert code == 2 and "steps are wrong" in said["error"]["message"], said


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return folder_of(tmp_path, [drawn(DRAWS[0], ())])
