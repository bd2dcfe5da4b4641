"""Folders of candidates for `edge-rt measure`, of functions in C."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.tuners.c_function import CFunction
from toolchain.boards.inventory.lookup import local_board
from toolchain.runtime import expected_fingerprint
from toolchain.targets.target import target_for
from toolchain.tasks.candidate import Candidate, Case, Entry, Parameter, write_case
from toolchain.tuning.builders.builder import LibraryBuilder
from toolchain.tuning.builders.choice import HostCompilers
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.plans import plan
from toolchain.tuning.plans.blocks import block, case_block, content_digest
from toolchain.tuning.plans.members import Member, Members

NUMBERS = Parameter((4,), "float32")
ACTS = Path(__file__).parents[1] / "tuning" / "deadly.c"
DOUBLED = "0"  # what a function does once it has doubled its input: nothing


@dataclass(frozen=True)
class Act:
    """A candidate: what its function does once it has doubled its input, and how long it may take."""

    name: str
    body: str = DOUBLED
    limit_s: float = 20.0
    probe: bool = False


@cache
def libraries(acts: Sequence[str], folder: Path) -> list[Path]:
    """Return a library for each act, in which `main_0` doubles its input and acts."""
    compilers = HostCompilers(1)
    try:
        builder = LibraryBuilder(compilers, local_board().profile, folder)
        built = [builder.build([doubling(act)])[0] for act in acts]
    finally:
        compilers.close()
    assert [each.failure for each in built] == [None] * len(acts)
    return [each.library for each in built if each.library]


def doubling(act: str = DOUBLED) -> Candidate:
    """Return a candidate that doubles its input, and then acts."""
    body = f"Argument *arguments = b; double_it(arguments); return {act};"
    code = CFunction(body, before=f'#include "{ACTS}"')
    return Candidate(Entry("c", act, "0" * 64), code, (NUMBERS, NUMBERS), 1)


def case_of(folder: Path, expected: np.ndarray | None = None) -> Case:
    """Return the case of doubling 0, 1, 2, 3; or of what is said to come of that."""
    case = write_case(folder, "case", {0: np.arange(4, dtype=np.float32)})
    case.expect([2 * np.arange(4, dtype=np.float32) if expected is None else expected])
    return case


def write_folder(
    folder: Path, acts: Sequence[Act], made: Sequence[Path], *cases: Case, **head: Any
) -> list[str]:
    """Write a folder of candidates; return their digests."""
    folder.mkdir()
    members = Members(folder, 1 << 30, 0)
    blocks, digests = [], []
    for act, library in zip(acts, made, strict=True):
        candidate = doubling(act.body)
        own = Member.of(library.read_bytes())
        parts = [case_block(candidate, case) for case in cases]
        assert members.add([own, *(member for part in parts for member in part.members)], 0)
        word = "probe" if act.probe else "candidate"
        lines = block(word, act.name, act.limit_s, own.digest, "main_0", "cpu", parts)
        digests.append(content_digest(lines, act.name, candidate.entry))
        blocks.append((lines[0].format(digest=digests[-1]), *lines[1:]))
    options = TuneOptions(repeat=2, min_repeat_ms=1)
    target: Any = SimpleNamespace(
        computes_on="cpu", threads=1, cpu=target_for(local_board().profile).cpu, requires=()
    )
    first = plan.head(head.get("runtime", expected_fingerprint()), target, options)
    (folder / plan.FILE).write_text(plan.text(first, members.sizes, blocks))
    return digests


def copied(folder: Path, to: Path) -> Path:
    """Return a copy of a folder."""
    return Path(shutil.copytree(folder, to))


def resealed(folder: Path, text: str) -> None:
    """Write a changed plan with the digest that it has now."""
    from hashlib import sha256

    content = text[: text.rindex("digest ")]
    (folder / plan.FILE).write_text(f"{content}digest {sha256(content.encode()).hexdigest()}\n")
