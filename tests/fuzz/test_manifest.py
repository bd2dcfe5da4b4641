"""What a bundle says about itself: refused in a sentence, or fit for all that is done with it.

What is tried: manifests with values of other kinds, of other sizes, too deep, too many or missing, in bundles
whose other members and sums agree with them.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.cli.lying.liar import tiny_bundle
from tests.fuzz.json_values import mutated_json
from tests.fuzz.loop import Attempt, run
from tests.fuzz.test_bundle import Members, archive
from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import DevicesThere, EdgeRtInfo
from toolchain.boards.inventory.lookup import find_board
from toolchain.bundles import Bundle, Manifest, layout, read_bundle, write
from toolchain.errors import CheckError, UsageError
from toolchain.measuring.deadlines import deadline
from toolchain.measuring.execute import npz_size
from toolchain.measuring.fit import check_facts, check_machine
from toolchain.measuring.shapes import input_specs

pytestmark = pytest.mark.slow

MOST_S = 24 * 24 * 3600.0  # that the system's own waits take
HELD = 48 << 20  # bytes of memory for a manifest of some kilobytes
TENSOR_BYTES = 1 << 16  # larger ones are left as they were
HUGE = ("9" * 5000, "9.9", "1e400", "2." + "9" * 5000)
FACTS = EdgeRtInfo(
    version="1",
    fingerprint="00",
    machine="x86_64",
    glibc="2.36",
    cpu_features=("asimd",),
    devices=(DevicesThere(kind="cpu", names=("x86",), problem=None),),
    logical_cpus=4,
    governor=None,
    temperature_c=None,
)


def changed(random: Random, values: Any) -> Any:
    """Return a manifest's values with one to three of them changed."""
    for _ in range(random.choice((1, 1, 2, 3))):
        values = mutated_json(random, values)
    if random.random() < 0.2 and isinstance(values, dict):
        values = {**values, random.choice(list(values) or ["x"]): random.choice(HUGE)}
    if random.random() < 0.005 and isinstance(values, dict):
        many: object = random.choice(({"": 0}, 0, [], "x"))
        values["target"] = {"mattr": [many] * 100_000}
    return values


def fitted(values: Any, members: Members) -> Members:
    """Return the members with that manifest, and tensors and sums that agree with it, if it is one."""
    members = dict(members)
    with suppress(Exception):
        for name, spec in Manifest.model_validate(values).tensor_members():
            if spec.nbytes <= TENSOR_BYTES:
                members[name] = write.header(spec) + bytes(spec.nbytes)
        values["files"] = {
            name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in members.items()
            if name in values["files"]
        }
    text = json.dumps(values).encode()
    line = layout.sum_line(hashlib.sha256(text).hexdigest())
    return {**members, "manifest.json": text, "manifest.sha256": line}


def use(bundle: Bundle, board: Board) -> None:
    """Do what is done with a bundle before any board is asked, and as far as its manifest is concerned."""
    manifest = bundle.manifest
    again = Manifest.model_validate_json(manifest.to_json())
    assert again == manifest, "it isn't what it says"
    assert npz_size(manifest.outputs) >= 0
    assert len(input_specs(manifest)) == len(bundle.sample)
    for emulated in (False, True):
        limit = deadline(manifest.model.flops, board.profile, emulated=emulated, runs=10**6)
        assert 0 < limit.seconds <= MOST_S, f"{limit}"
    with suppress(UsageError):
        check_facts(manifest, board, FACTS)
        check_machine(manifest, board)


@contextmanager
def harness() -> Iterator[Attempt]:
    """Make a bundle; yield what reads it with another manifest."""
    with tempfile.TemporaryDirectory() as folder:
        good = tiny_bundle(Path(folder) / "good.bundle")
        with tarfile.open(good) as opened:
            members = {each.name: opened.extractfile(each).read() for each in opened}
        values = json.loads(members["manifest.json"])
        board = find_board("local")
        use(read_bundle(good), board)
        file = Path(folder) / "x.bundle"
        tracemalloc.start()

        def attempt(random: Random) -> None:
            file.write_bytes(archive(fitted(changed(random, values), members)))
            tracemalloc.reset_peak()
            try:
                use(read_bundle(file), board)
            except (CheckError, UsageError) as error:
                assert str(file) in error.message, f"not a word of the file: {error}"
                assert len(error.message) < 10_000, "a message of pages"
            assert tracemalloc.get_traced_memory()[1] < HELD, f"{tracemalloc.get_traced_memory()[1]} bytes"

        try:
            yield attempt
        finally:
            tracemalloc.stop()


def test_a_few_hundred_manifests_are_refused_or_usable() -> None:
    run("manifest", harness, seed=20260, cases=200)
