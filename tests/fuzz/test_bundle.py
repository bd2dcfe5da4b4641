"""Bundles that others made: refused in a sentence, or read as what they say they are; nothing is written.

What is tried: changed bytes and blocks, members of other names, kinds and sizes, contents and manifests that
were changed together with their sums, and files of which most is a hole.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.cli.lying.liar import tiny_bundle
from tests.fuzz import rpc_frames as rpc
from tests.fuzz.json_values import mutated_json
from tests.fuzz.loop import Attempt, run
from toolchain.bundles import layout, read_bundle
from toolchain.errors import CheckError, UsageError

pytestmark = pytest.mark.slow

BLOCK = 512
HELD = 600 << 20  # bytes of memory: of a file, 256 MiB may be holes
MOST_S = 5.0  # of this thread's own time
Members = dict[str, bytes]

NAMES = ("../x", "/x", "a/../../x", "library.so", "sample/0.npy", "sample/1.npy", "x\x1b[31m", "n" * 100)
KINDS = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE)
EXTENSIONS = (tarfile.GNUTYPE_SPARSE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE, b"\0", b"9")
SIZES = (0, 1, 511, 512, 513, 2**20, 2**26, 2**30, 2**31, 2**33 - 1, 2**40, -1)


def summed(members: Members, random: Random | None = None) -> Members:
    """Return the members with sums that agree, in a manifest of which some may be changed."""
    values = json.loads(members["manifest.json"])
    for name in values["files"]:
        content = members[name]
        values["files"][name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    text = json.dumps(mutated_json(random, values) if random else values).encode()
    line = layout.sum_line(hashlib.sha256(text).hexdigest())
    return {**members, "manifest.json": text, "manifest.sha256": line}


def archive(members: Members, odd: tarfile.TarInfo | None = None, at: int = 0) -> bytes:
    """Return the file of these members, with an odd header before one of them."""
    out = io.BytesIO()
    for place, (name, content) in enumerate(members.items()):
        if odd and place == at:
            out.write(odd.tobuf(tarfile.GNU_FORMAT))
        out.write(layout.header(name, len(content)) + content + layout.padding(len(content)))
    out.write(bytes(2 * BLOCK))
    return out.getvalue() + layout.padding(out.tell(), layout.RECORD)


def odd_header(random: Random) -> tarfile.TarInfo:
    """Return a header that no bundle has."""
    info = tarfile.TarInfo(random.choice(NAMES))
    info.type = random.choice((tarfile.REGTYPE, *KINDS, *EXTENSIONS))
    info.size = max(0, random.choice(SIZES))
    info.linkname = random.choice(("", "/etc/passwd", "../x", "manifest.json"))
    info.mode = random.choice((0o644, 0o4777))
    return info


def blocks_moved(random: Random, whole: bytes) -> bytes:
    """Return the file with a block dropped, doubled or in another place."""
    blocks = [whole[at : at + BLOCK] for at in range(0, len(whole), BLOCK)]
    moved = blocks.pop(random.randrange(len(blocks)))
    for _ in range(random.randrange(3)):
        blocks.insert(random.randrange(len(blocks) + 1), moved)
    return b"".join(blocks)


def write_hollow(random: Random, file: Path, members: Members) -> None:
    """Write a bundle of which a member, as the manifest says, is a hole of up to gigabytes."""
    size = max(0, random.choice(SIZES))
    values = json.loads(members["manifest.json"])
    values["files"]["library.so"]["size"] = size
    text = json.dumps(values).encode()
    line = layout.sum_line(hashlib.sha256(text).hexdigest())
    head = archive({"manifest.json": text, "manifest.sha256": line}).rstrip(b"\0")
    with file.open("wb") as opened:
        opened.write(head + layout.padding(len(head)))
        opened.write(layout.header("library.so", size % 8**11))
        opened.truncate(opened.tell() + min(size, 2**33))


def write_bad(random: Random, file: Path, members: Members) -> None:
    """Write a file that is a bundle but for something."""
    whole = archive(members)
    match random.randrange(8):
        case 0:
            file.write_bytes(rpc.mutated(random, whole))
        case 1:
            file.write_bytes(blocks_moved(random, whole))
        case 2:
            file.write_bytes(archive(members, odd_header(random), random.randrange(len(members))))
        case 3:
            name = random.choice([name for name in members if not name.startswith("manifest.")])
            changed = {**members, name: rpc.mutated(random, members[name])}
            file.write_bytes(archive(summed(changed)))
        case 4 | 5:
            file.write_bytes(archive(summed(members, random)))
        case 6:
            write_hollow(random, file, members)
        case _:
            file.write_bytes(whole[: random.randrange(len(whole))])
            with file.open("ab") as opened:
                opened.truncate(random.choice((0, 10240, len(whole), 2**33)))


def check(file: Path) -> None:
    """Check that what is read is what the file says."""
    bundle = read_bundle(file)
    data = file.read_bytes()
    assert bundle.sha256 == hashlib.sha256(data).hexdigest(), "another file's sum"
    assert bundle.library in data, "another library"
    for tensors, arrays in (
        (bundle.manifest.inputs, bundle.sample),
        (bundle.manifest.outputs, bundle.expected),
    ):
        assert [tensor.name for tensor in tensors] == list(arrays), "other names"
        for tensor, array in zip(tensors, arrays.values(), strict=True):
            assert (array.shape, array.dtype) == (tensor.shape, np.dtype(tensor.dtype)), (
                f"{tensor}: {array!r}"
            )


@contextmanager
def harness() -> Iterator[Attempt]:
    """Make a bundle; yield what reads others made of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "inner"
        folder.mkdir()
        good = tiny_bundle(folder / "good.bundle")
        with tarfile.open(good) as opened:
            members = {each.name: opened.extractfile(each).read() for each in opened}
        assert archive(members) == good.read_bytes(), "this is how bundles are made"
        file = folder / "x.bundle"
        tracemalloc.start()

        def attempt(random: Random) -> None:
            write_bad(random, file, members)
            tracemalloc.reset_peak()
            begun = time.thread_time()
            try:
                check(file)
            except (CheckError, UsageError) as error:
                assert str(file) in error.message, f"not a word of the file: {error}"
            finally:
                there = {path.name for path in Path(name).rglob("*")}
            assert there == {"inner", "good.bundle", "x.bundle"}, f"there is {there}"
            assert tracemalloc.get_traced_memory()[1] < HELD, f"{tracemalloc.get_traced_memory()[1]} bytes"
            assert time.thread_time() - begun < MOST_S, f"{time.thread_time() - begun} s"

        try:
            yield attempt
        finally:
            tracemalloc.stop()


def test_a_few_hundred_bundles_are_refused_or_read() -> None:
    run("bundle", harness, seed=20260, cases=300)
