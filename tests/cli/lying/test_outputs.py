"""Files of outputs that are not the bundle's, or no files."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.lying.asking import Ask, clean, refused
from tests.cli.lying.liar import OUTPUTS, RUN, Liar, npy, npz, outputs_file

pytestmark = pytest.mark.slow


Y, FOUND, N = OUTPUTS.values()


def files() -> Iterator[Any]:
    right = outputs_file(OUTPUTS)
    members = [(f"{place}.npy", npy(array)) for place, array in enumerate(OUTPUTS.values())]

    def but(place: int, data: bytes, name: str | None = None) -> bytes:
        named = [*members]
        named[place] = (name or named[place][0], data)
        return npz(named)

    def archive(compression: int) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", compression) as written:
            for name, data in members:
                written.writestr(name, data)
        return buffer.getvalue()

    pickled = io.BytesIO()
    np.save(pickled, np.array([{"a": 1}], object), allow_pickle=True)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("0.npy", bytes(5_000_000))
    flipped = bytearray(right)
    flipped[len(right) // 3] ^= 1
    yield from {
        "nothing": b"",
        "no zip": b"x" * len(right),
        "cut off": right[:-1],
        "half": right[: len(right) // 2],
        "more": right + b"\0",
        "a bit": bytes(flipped),
        "other dtype": but(0, npy(Y.astype("float64"))),
        "other order": but(0, npy(Y.astype(">f4"))),
        "same size": but(0, npy(Y.view("int32"))),
        "other shape": but(0, npy(Y.reshape(4))),
        "huge shape": but(0, npy(Y, "4294967296,4294967296,")),
        "negative shape": but(0, npy(Y, "-1,4,")),
        "shape of code": but(0, npy(Y, "print('x'),")),
        "pickled": but(0, pickled.getvalue()),
        "no array": but(0, b"\x93NUMPY\x03\x00"),
        "no bool": but(1, npy(FOUND.view("uint8") * 2).replace(b"|u1", b"|b1")),
        "wrong name": but(2, npy(N), "n.npy"),
        "path as name": but(2, npy(N), "../../x.npy"),
        "a name twice": but(2, npy(N), "1.npy"),
        "one too few": npz(members[:2]),
        "one too many": npz([*members, members[0]]),
        "none": npz([]),
        "64-bit lengths": right.replace(
            b"PK\5\6", b"PK\6\6" + b"\xff" * 52 + b"PK\6\7" + bytes(16) + b"PK\5\6"
        ),
        "another writer": archive(zipfile.ZIP_STORED),
        "deflated": archive(zipfile.ZIP_DEFLATED),
        "a bomb": bomb.getvalue(),
    }.items()


@pytest.mark.parametrize("content", [pytest.param(data, id=name) for name, data in files()])
def test_refuses_outputs_of_another_bundle(ask: Ask, liar: Liar, folder: Path, content: bytes) -> None:
    (liar.root / "lie" / "out.npz").write_bytes(content)
    ran = ask("run")
    clean(ran)
    assert ran.code == 4 and "out.npz" in ran.err, ran
    assert not (folder / "out.npz").exists()


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ('rm "$out"', 1, "has no file"),
        ('rm "$out"; mkfifo "$out"', 1, "has no file"),
        ('rm "$out"; ln -s /dev/zero "$out"', 1, "has no file"),
        ('rm "$out"; mkdir "$out"', 1, "has no file"),
        ('rm "$out"; ln -s nothing "$out"', 1, "has no file"),
        ("rm -r run", 1, "has no file"),
        ('rm "$out"; ln -s /proc/self/mem "$out"', 1, "board local: cannot read"),
        ('truncate -s 100G "$out"', 4, "has more than the"),
    ],
)
def test_refuses_outputs_that_are_no_file(ask: Ask, liar: Liar, script: str, code: int, words: str) -> None:
    liar.say("run", RUN, script=script)
    ran = ask("run")
    clean(ran)
    assert ran.code == code and ran.says(words), ran
    assert not [*(liar.root / "run").glob("*")]


def test_refuses_missing_scratch_folder(ask: Ask, liar: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolchain.boards.local.transport import LocalTransport

    assert liar.root.is_dir()
    whole = LocalTransport.listing
    monkeypatch.setattr(LocalTransport, "listing", lambda *at: {} if at[1] == "run" else whole(*at))
    refused(ask("run"), "the listing of its folder run", "is missing")
