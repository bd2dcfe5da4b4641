"""A station draws and packs operands as this host does, bit for bit, and refuses wrong steps."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from benchmarks.tuners.c_function import CFunction
from tests.runtime.conftest import Edge
from tests.runtime.networks import CLASSES
from tests.runtime.offline_folder import resealed
from toolchain.architectures.table import LINUX
from toolchain.arrays import Array
from toolchain.linking import ZigLinker
from toolchain.profiles import load_profile
from toolchain.runtime import expected_fingerprint
from toolchain.tasks.draws import Draw
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.plans import plan
from toolchain.tuning.plans.blocks import block
from toolchain.tuning.plans.members import Member, Members
from toolchain.tuning.plans.operands import PackingStep, followed, stored, text

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]
COPY = """
typedef struct { void *data; int device[2], rank; char code, bits, lanes[2]; long long *shape; } Tensor;
typedef struct { int type, padding; union { Tensor *tensor; long long room; }; } Argument;
"""
COPIES = """Tensor *from = ((Argument *)b)[0].tensor; long long bytes = from->bits / 8;
for (int axis = 0; axis < from->rank; axis++) bytes *= from->shape[axis];
volatile char *read = from->data, *written = ((Argument *)b)[1].tensor->data;
for (long long at = 0; at < bytes; at++) written[at] = read[at];
return 0;"""
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


Planned = tuple[str, Array, Member | None]


@pytest.fixture(scope="module")
def copiers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what makes a library for an architecture, whose `main_0` copies a tensor."""
    folder, made = tmp_path_factory.mktemp("copiers"), dict[str, Member]()

    def copier(arch: str) -> Member:
        if arch not in made:
            target = next(row.zig_target for row in LINUX.values() if row.edge_rt == arch)
            part, out = folder / f"{arch}.o", folder / f"{arch}.so"
            part.write_bytes(*CFunction(COPIES, before=COPY, target=target).objects("main_0"))
            ZigLinker().link([part], out, load_profile(CLASSES[arch]))
            made[arch] = Member.of(out.read_bytes())
        return made[arch]

    return copier


def folder_of(folder: Path, operands: list[Planned], library: Member) -> Path:
    """Write a folder of candidates that copy an operand; each bit of the copy must be right."""
    folder.mkdir()
    members, blocks = Members(folder, 1 << 30, 0), []
    for place, (line, value, member) in enumerate(operands):
        kind = f"uint{8 * value.dtype.itemsize}"
        exact = stored(np.ascontiguousarray(value).view(kind).astype(np.float64))
        assert members.add([library, exact, *([member] if member else [])], 0)
        first = block("candidate", f"c:{place}", 20, library.digest, "main_0", "cpu", [])[0]
        shape = "x".join(map(str, value.shape))
        output = f"output {kind} {shape} {exact.digest} 0 0"
        blocks.append((first.format(digest=f"{place:064x}"), "case", line, output))
    target: Any = SimpleNamespace(computes_on="cpu", threads=1, cpu="-", requires=())
    head = plan.head(expected_fingerprint(), target, TuneOptions(repeat=1, min_repeat_ms=0))
    (folder / plan.FILE).write_text(plan.text(head, members.sizes, blocks))
    return folder


def differing(edge: Edge, operands: list[Planned], library: Member) -> list[str]:
    """Return what a station says of the operands whose bytes are others there."""
    with tempfile.TemporaryDirectory() as root:
        folder = folder_of(Path(root) / "folder", operands, library)
        code, said = edge("measure", folder, "--state", Path(root) / "rt")
        _head, *lines = map(json.loads, (folder / "results").read_text().splitlines())
    assert len(lines) == len(operands), (code, said)
    return [
        f"{line}: {result['message']}"
        for (line, *_), result in zip(operands, lines, strict=True)
        if result["message"]
    ]


def drawn(draw: Draw, steps: tuple[PackingStep, ...]) -> tuple[str, Array, None]:
    shape = "x".join(map(str, draw.shape))
    words = f"drawn {draw.dtype} {shape} {draw.seed} {draw.exponent} {int(draw.edges)} {text(steps)}"
    return words, followed(draw.values(), steps), None


def stored_with(value: Array, steps: tuple[PackingStep, ...]) -> Planned:
    member = stored(value)
    return f"stored {member.digest} {text(steps)}", followed(value, steps), member


def test_they_agree(edge: Edge, copiers: Any) -> None:
    operands: list[Planned] = [drawn(draw, ()) for draw in DRAWS]
    operands += [drawn(DRAWS[at % 2 * 4], steps) for at, steps in enumerate(STEPS)]
    for steps, dtype in zip(STEPS, (np.int8, np.uint16, np.int64, np.float32, np.int32), strict=True):
        operands.append(stored_with(np.arange(120).reshape(SHAPE).astype(dtype), steps))
    assert not differing(edge, operands, copiers(edge.arch))


EXTENTS = st.integers(1, 4)
INTEGERS = st.integers(1, 1 << 24) | st.integers(1, 1 << 53)
FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def transforms(draw: Any) -> Planned:
    """Draw a transform of matrices of any finite numbers, or of those that a station draws."""
    high, wide, rows, columns = (draw(EXTENTS) for _ in range(4))
    pairs = [
        number
        for _ in range(rows * high + columns * wide)
        for number in (draw(INTEGERS) * draw(st.sampled_from((-1, 0, 1))), draw(INTEGERS))
    ]
    steps = (PackingStep("m", (rows, columns, *pairs)), PackingStep("t", (2, 0, 1)))
    if draw(st.booleans()):
        seed, exponent = draw(st.integers(0, 1 << 48)), draw(st.integers(-16, 8))
        return drawn(Draw("float32", (100, high, wide), seed, exponent), steps)
    return stored_with(draw(arrays.arrays(np.float32, (draw(EXTENTS), high, wide), elements=FINITE)), steps)


@settings(max_examples=20)
@given(st.lists(transforms(), min_size=1, max_size=6))
def test_transforms_have_the_same_bits(edge: Edge, copiers: Any, operands: list[Planned]) -> None:
    assert not differing(edge, operands, copiers(edge.arch))


def test_products_are_rounded_before_they_are_added(edge: Edge, copiers: Any) -> None:
    """A third of x less a third of x is 0, but for a product that is added as it is."""
    value = np.repeat(np.arange(1, 101, dtype=np.float32).reshape(-1, 1, 1) / 7, 2, axis=2)
    operand = stored_with(value, (PackingStep("m", (1, 1, 1, 1, 1, 3, -1, 3)),))
    assert not operand[1].any() and not differing(edge, [operand], copiers(edge.arch))


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
        "m",
        "m1",
        "m1x1",
        "m1x1x1x1x1x1",
        "m0x1" + "x1" * 10,
        "m1x1" + "x1" * 17,
        "m1x1" + "x1" * 20,
        "m1x1" + "x1x0" * 9,
        "m1x1" + "x1x-1" * 9,
        "m-1x2" + "x1" * 12,
        "m-5x5" + "x1" * 10,
        "m9223372036854775807x1" + "x1" * 18,
        "m-9223372036854775808x1" + "x1" * 18,
        "m1x1" + "x1x1" * 9 + "xx",
        "r120,m1x1x1x1x1x1",
    ],
)
def test_steps_that_cannot_be_taken(steps: str, native: Edge, plain: Path, tmp_path: Path) -> None:
    text_ = (plain / "plan").read_text()
    resealed(plain, text_.replace(" -\noutput", f" {steps}\noutput"))
    code, said = native("measure", plain, "--state", tmp_path / "rt")
    assert code == 2 and "steps are wrong" in said["error"]["message"], said


@pytest.fixture
def plain(copiers: Any, tmp_path: Path) -> Path:
    return folder_of(tmp_path / "folder", [drawn(DRAWS[0], ())], copiers("x86_64"))


@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_floats_alone_are_transformed(dtype: str, copiers: Any, native: Edge) -> None:
    value = np.ones((1, 1, 1), dtype)
    member = stored(value)
    operands: list[Planned] = [(f"stored {member.digest} m1x1x1x1x1x1", value, member)]
    (said,) = differing(native, operands, copiers("x86_64"))
    assert "its steps are wrong" in said
