"""TensorFlow Lite files of anybody: refused in a sentence, or read as a graph.

What is tried: files of every operator with some of their numbers changed, which are offsets, lengths, types,
shapes and options; cut ones; and such as repeat what is theirs.
"""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import onnx
import pytest

from tests.fuzz import rpc_frames as rpc
from tests.fuzz.loop import Attempt, run
from tests.models.tflite.cases import CASES
from toolchain.errors import UsageError
from toolchain.models.tflite.convert import read_tflite

pytestmark = pytest.mark.slow

HELD = 96 << 20
"""Bytes of memory for files of some kilobytes: constants may be 64 MB, whatever the file."""

LONGEST_S = 10.0
"""Of this process alone: other work on its cores is not its fault."""

ORIGIN = "some.tflite"
NUMBERS = (
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    127,
    128,
    255,
    2**15,
    2**16 - 1,
    2**20,
    2**31 - 1,
    2**31,
    2**32 - 4,
    2**32 - 1,
)


def renumbered(random: Random, data: bytes) -> bytes:
    """Return a file with one to four of its numbers changed, be they offsets or values."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        width, form = random.choice(((1, "<B"), (2, "<H"), (4, "<I"), (4, "<I"), (8, "<Q")))
        place = random.randrange(8, len(data) - 8) // width * width
        (old,) = struct.unpack_from(form, data, place)
        new = random.choice(
            (random.choice(NUMBERS), old + random.choice((-4, -1, 1, 4)), random.randrange(64))
        )
        struct.pack_into(form, changed, place, new % (1 << 8 * width))
    return bytes(changed)


def made(random: Random) -> tuple[bytes, bool]:
    """Return a file, and whether it is as a converter would write it."""
    case = random.choice(CASES)
    data = case.write(random.choice(list(case.forms))).finish()
    match random.randrange(10):
        case 0:
            return data, True
        case 1:
            return data[: random.randrange(8, len(data))], False
        case 2:
            return rpc.mutated(random, data), False
        case _:
            return renumbered(random, data), False


def attempt(random: Random) -> None:
    """Read a file."""
    data, right = made(random)
    tracemalloc.reset_peak()
    before, start = tracemalloc.get_traced_memory()[0], time.process_time()
    try:
        model = read_tflite(data, ORIGIN)
    except UsageError as error:
        assert not right, f"refused though it is right: {error}"
        assert error.message.startswith(ORIGIN) and error.message.isprintable(), f"no sentence: {error}"
        assert len(error.message) < 2000, f"not a sentence: {error}"
    else:
        assert isinstance(model, onnx.ModelProto) and model.graph.output, "no graph"
    held = tracemalloc.get_traced_memory()[1] - before
    assert held < HELD, f"{held} bytes"
    assert time.process_time() - start < LONGEST_S, "slow"


@contextmanager
def harness() -> Iterator[Attempt]:
    """Yield what reads a file."""
    tracemalloc.start()
    try:
        yield attempt
    finally:
        tracemalloc.stop()


def test_some_hundred_files_are_refused_or_read() -> None:
    run("tflite", harness, seed=20260, cases=400)
