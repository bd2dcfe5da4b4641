"""Commands that ask a board which lies, and what must not come of its answers."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.cli.lying.liar import Liar
from tests.cli.running import Ran, Toolchain

ESCAPE = "\x1b]0;mine\x07\x9b31m\r\x00"
BOUND = 100_000_000
MISSING = object()
NAN, INF = float("nan"), float("inf")


@dataclass(frozen=True)
class Lies:
    """A board that lies, and a bundle to run there."""

    liar: Liar
    bundle: Path
    state: Path


@dataclass(frozen=True)
class Ask:
    """The commands whose answers are lies."""

    invoke: Toolchain
    bundle: Path
    folder: Path

    def __call__(self, verb: str, *options: object, board: str = "local") -> Ran:
        if verb == "status":
            return self.invoke("board", "status", board, *options)
        if verb == "provision":
            return self.invoke("board", "provision", board, *options)
        words: list[object] = [verb, self.bundle, "--board", board, "--threads", 1, *options]
        if verb == "run":
            data = self.folder / "x.npy"
            np.save(data, np.ones((1, 3), "float32"))
            words += ["--input", f"x={data}", "-o", self.folder / "out.npz"]
        if verb == "bench" and "--repeat" not in options:
            words += ["--repeat", 3]
        return self.invoke(*words)


def refused(ran: Ran, *words: str, code: int = 4) -> None:
    """Assert that it was called a lie, in clean words that name board, field and value."""
    clean(ran)
    assert ran.code == code, ran
    assert ran.says("board local", *words), ran.err


def clean(ran: Ran) -> None:
    said = ran.out + ran.err
    assert "bug in the toolchain" not in said, said
    controls = {c for c in said if unicodedata.category(c) == "Cc" and c not in "\n\t"}
    assert not controls, controls
    assert len(said) < 2000, len(said)


def changed(document: dict[str, Any], field: str, value: object) -> dict[str, Any]:
    """Return the document with another value at `a.0.b`; `MISSING` takes it out."""
    copied = json.loads(json.dumps(document))
    at = copied
    *way, last = [int(part) if part.isdigit() else part for part in field.split(".")]
    for part in way:
        at = at[part]
    if value is MISSING:
        del at[last]
    else:
        at[last] = value
    return copied
