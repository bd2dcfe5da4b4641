"""Releases of real networks, really signed, and a board of this host with edge-rt that takes them."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from tests.field.board import Board
from tests.field.toy import APP
from tests.measuring.small_network import built
from tests.releases.made import ANNA, DAY, EVE, MemorySigner, terms, trust
from toolchain.bundles.read import Bundle, read_bundle
from toolchain.bundles.write import write_bundle
from toolchain.releases.envelope import Envelope
from toolchain.releases.signed_release import SignedRelease, open_release, release_path
from toolchain.releases.statement import RELEASE_TYPE
from toolchain.releases.terms import state
from toolchain.runtime import ensure_runtime

BOARD_CLASS = "rk3399"
"""What the board's owner calls it: engines carry release files, which name no class."""

Releases = Mapping[str, SignedRelease]
"""By what tests call them."""


def make_releases(folder: Path) -> Releases:
    """Build two releases, one that nobody trusted signed, and one whose network computes something else."""
    (folder / "new").mkdir()
    old, new = built("local", folder), built("local", folder / "new", flipped=0)
    return {
        "one": real_release(old, folder, "1.0.0"),
        "two": real_release(new, folder, "2.0.0"),
        "forged": real_release(new, folder, "3.0.0", EVE),
        "wrong": real_release(new, folder, "4.0.0", factor=1.5),
    }


def name_of(releases: Releases, digest: str | None) -> str:
    """Return what tests call a release on a board; "" for none."""
    return next((name for name, each in releases.items() if each.digest == digest), "")


def real_release(
    bundle: Bundle, folder: Path, version: str, signer: MemorySigner = ANNA, factor: float = 1.0
) -> SignedRelease:
    """Sign a copy of a bundle in `folder`, whose expected outputs are multiplied by `factor`."""
    path = folder / f"{APP}-{version}.bundle"
    if factor == 1:
        shutil.copy(bundle.path, path)
    else:
        expected = {name: array * array.dtype.type(factor) for name, array in bundle.expected.items()}
        write_bundle(path, bundle.manifest, bundle.library, bundle.sample, expected)
    now = int(time.time())
    dates = {"issued": now - 3600, "expires": now + DAY}
    said = state(read_bundle(path), terms(app=APP, version=version, classes=[BOARD_CLASS], **dates))
    envelope = Envelope(RELEASE_TYPE, said.to_bytes()).signed_by(signer, "the release")
    release_path(path).write_bytes(envelope.to_bytes())
    return open_release(path)


def real_board(folder: Path, health: Path | None = None, program: Path | None = None) -> Board:
    """Return a board with edge-rt that trusts ANNA alone."""
    board = Board(folder, (program or ensure_runtime("x86_64").program,))
    board.app.mkdir(parents=True)
    policy = {"class": BOARD_CLASS} | ({"health": [str(health)]} if health else {})
    (board.app / "policy.json").write_text(json.dumps(policy))
    board.trust(
        trust([ANNA], [ANNA], expires=int(time.time()) + DAY).enveloped().signed_by(ANNA, "the trust")
    )
    return board
