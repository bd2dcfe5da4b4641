"""Files of arrays: users' `.npy` and boards' `.npz`; refused in a sentence, or read as what they are.

What is tried: headers made by a grammar of what numpy's parser meets, pickles, cut and changed bytes, and zip
files that say the same in other words, or something else.
"""

from __future__ import annotations

import io
import pickle
import struct
import tempfile
import tracemalloc
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.cli.lying.liar import OUTPUTS, npy, outputs_file
from tests.fuzz import rpc_frames as rpc
from tests.fuzz.loop import Attempt, run
from toolchain.bundles.manifest import Tensor
from toolchain.errors import UsageError
from toolchain.measuring.execute import read_npz
from toolchain.models.samples import read_array

pytestmark = pytest.mark.slow

HELD = 4 << 20  # bytes of memory for files of some kilobytes
SPECS = [Tensor(name=name, shape=array.shape, dtype=array.dtype.name) for name, array in OUTPUTS.items()]
RIGHT = outputs_file(OUTPUTS)
ARRAYS = (
    np.arange(24, dtype="float32").reshape(2, 3, 4),
    np.asfortranarray(np.arange(6, dtype=">i8").reshape(2, 3)),
    np.array(True),
    np.zeros((0, 5), "uint8"),
    np.ones(3, "complex64"),
)
DESCRIPTIONS = (
    *(
        "'<f4'",
        "'|O'",
        "'>f8'",
        "'|b1'",
        "'<U3'",
        "'|V7'",
        "'|S0'",
        "'<M8[s]'",
        "'<f3'",
        "''",
        "None",
        "4",
        "[]",
    ),
    *("[('a','<f4')]", "[('a','|O')]", "[('a','<f4',(2,))]", "[[('a',)]]", "('<f4',(2**9,))", "{'a': 1}"),
    *("'<U999999999'", "'|V2147483647'", "[('a','<f4',(999999999999,))]", "[" * 300, "b'<f4'", "'<f4,<f4'"),
)
SHAPES = (
    *(
        "()",
        "(3,)",
        "(2, 3, 4)",
        "(0,)",
        "(-1,)",
        "(2, -3)",
        "3",
        "None",
        "(True,)",
        "(1.0,)",
        "('3',)",
        "[3]",
    ),
    *(
        "(4611686018427387904, 4)",
        "(0, 4611686018427387904)",
        "(10**9,)",
        "(" + "1," * 70 + ")",
        "(9" + "9" * 30 + ",)",
    ),
    *("(18446744073709551615,)", "(1 << 60,)", "(-(1),)", "(2**9,)", "(3,)*3", "(1j,)", "__import__('os')"),
)
ORDERS = ("False", "True", "0", "None", "'x'", "[]")
KEYS = ("", ", 'more': 1", ", 1: 2", ", b'x': 2", ", **{}", ", 'shape': (1,)", ", ('a',): 0", ", [1]: 0")


def made(random: Random) -> bytes:
    """Return a file whose header is that of another one."""
    text = (
        f"{{'descr': {random.choice(DESCRIPTIONS)}, 'fortran_order': {random.choice(ORDERS)}, "
        f"'shape': {random.choice(SHAPES)}{random.choice(KEYS)}, }}"
    ).encode()
    version = random.choice((b"\1\0", b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\4\0", b"\0\0"))
    text += b" " * random.choice((0, 10, 20_000)) + random.choice((b"\n", b"", b"\xff\n", b"\0", b"\n1"))
    size = len(text) + random.choice((0, 0, 0, 0, 1, -1, 2**15))
    length = struct.pack("<H" if version == b"\1\0" else "<I", max(0, size))
    return b"\x93NUMPY" + version + length + text + random.randbytes(random.choice((0, 12, 96, 4096)))


def user_file(random: Random) -> tuple[bytes, np.ndarray | None]:
    """Return a file, and the array in it if it is as numpy makes it."""
    array = random.choice(ARRAYS)
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=random.choice(((1, 0), (2, 0), (3, 0))), allow_pickle=False)
    match random.randrange(7):
        case 0:
            return out.getvalue(), array
        case 1 | 2 | 3:
            return made(random), None
        case 4:
            return made(random)[: random.randrange(100)] + pickle.dumps(["x", 1, None] * 20), None
        case 5:
            return rpc.mutated(random, out.getvalue()), None
        case _:
            return out.getvalue()[: random.randrange(len(out.getvalue()))], None


def zipped(random: Random) -> bytes:
    """Return a zip file made by another program."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name twice
        for place, array in enumerate(OUTPUTS.values()):
            name = random.choice((f"{place}.npy", f"{place}.npy", "0.npy", "../x.npy", "/x", "x" * 300))
            entry = zipfile.ZipInfo(name)
            entry.compress_type = random.choice(
                (zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            )
            entry.extra = random.choice((b"", b"", b"\1\0\10\0" + bytes(8)))
            entry.comment = random.choice((b"", b"x"))
            data = random.choice((npy(array), npy(array), made(random), bytes(100_000)))
            archive.writestr(entry, data)
        archive.comment = random.choice((b"", b"x" * 100))
    return out.getvalue()


def board_file(random: Random) -> bytes:
    """Return what a board sends in place of its outputs, or those."""
    match random.randrange(4):
        case 0:
            return rpc.mutated(random, RIGHT)
        case 1:
            return zipped(random)
        case 2:
            outputs = {name: random.choice((array, array, *ARRAYS)) for name, array in OUTPUTS.items()}
            return outputs_file(outputs)
        case _:
            return RIGHT


def try_user(random: Random, file: Path) -> None:
    """Read a user's file."""
    data, right = user_file(random)
    file.write_bytes(data)
    try:
        array = read_array(file, "--input x=FILE")
    except UsageError as error:
        assert right is None, f"refused though it is right: {error}"
        assert str(file) in error.message and len(error.message) < 2000, f"not a sentence: {error}"
        return
    assert array.flags.c_contiguous and array.dtype.isnative, f"{array.flags} {array.dtype}"
    assert not array.dtype.hasobject and array.nbytes <= len(data), f"{array.nbytes} bytes of {array.dtype}"
    assert right is None or (array.shape == right.shape and (array == right).all()), "another array"


def try_board(random: Random, file: Path) -> None:
    """Read a board's file."""
    data = board_file(random)
    file.write_bytes(data)
    try:
        outputs = read_npz(file, SPECS)
    except ValueError as error:
        assert data != RIGHT, f"refused though it is right: {error}"
        assert str(error).isprintable(), f"not for people: {error}"
        return
    assert list(outputs) == list(OUTPUTS), "other names"
    assert outputs_file(outputs) == data, "another form than edge-rt's was believed"
    for array, right in zip(outputs.values(), OUTPUTS.values(), strict=True):
        assert (array.dtype, array.shape) == (right.dtype, right.shape), f"{array!r} for {right!r}"


@contextmanager
def harness() -> Iterator[Attempt]:
    """Yield what reads a file of either kind."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.npy"
        tracemalloc.start()

        def attempt(random: Random) -> None:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            random.choice((try_user, try_board))(random, file)
            held = tracemalloc.get_traced_memory()[1] - before
            assert held < HELD, f"{held} bytes"

        try:
            yield attempt
        finally:
            tracemalloc.stop()


def test_some_hundred_files_are_refused_or_read() -> None:
    run("npy", harness, seed=20260, cases=700)
