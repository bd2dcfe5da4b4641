"""Fleets of small boards: the real installer with the toy network of tests/field, in folders of this host.

The installer is edge-rt's own code without TVM; so 200 boards cost little, and what they do is real.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.field.build import installer
from tests.releases.made import ANNA, NOW, MemorySigner, small_bundle, terms, trust
from toolchain.boards.board import Board
from toolchain.boards.edge_rt.install import stock
from toolchain.boards.local.transport import LocalTransport
from toolchain.boards.transport import Transport
from toolchain.bundles import Tensor, write_bundle
from toolchain.bundles.read import read_bundle
from toolchain.profiles import load_profile
from toolchain.releases.envelope import Envelope
from toolchain.releases.export import Delivery
from toolchain.releases.signed_release import SignedRelease, open_release, release_path
from toolchain.releases.statement import RELEASE_TYPE
from toolchain.releases.terms import state
from toolchain.releases.trust import TrustChain, read_trust

APP = "tiny"
CLASS = "rk3399+emulated"
CLOCK = {"FIELD_NOW": str(NOW + 60)}
PROGRAM = "bin/edge-rt-0123456789ab"


def toy_release(
    folder: Path,
    version: str = "2.0.0",
    library: str = "times 2",
    padding: int = 2000,
    bundle_of: str = "",
    **changed: object,
) -> SignedRelease:
    """Sign a bundle of the toy network; the library has `padding` more bytes, which its version decides.

    Parameters
    ----------
    bundle_of
        The version whose bundle is signed; empty: a bundle of its own.
    """
    path = folder / f"toy-{version}.bundle"
    manifest = read_bundle(small_bundle(folder / "small.bundle")).manifest.model_copy(
        update={
            "inputs": (Tensor(name="x", shape=(6,), dtype="float32"),),
            "outputs": (Tensor(name="v", shape=(6,), dtype="float32"),),
            "tolerances": (),
            "tvm": "toy",
            "model": read_bundle(folder / "small.bundle").manifest.model.model_copy(
                update={"softmax_outputs": ()}
            ),
        }
    )
    seed = hashlib.shake_256((bundle_of or version).encode()).digest(padding // 2).hex()
    sample = np.arange(6, dtype="float32")
    words = f"\x7fELF {library} {seed}".encode()
    write_bundle(path, manifest, words, {"x": sample}, {"v": sample * 2})
    statement = state(read_bundle(path), terms(version=version, **changed))
    envelope = Envelope(RELEASE_TYPE, statement.to_bytes()).signed_by(ANNA, "the release")
    release_path(path).write_bytes(envelope.to_bytes())
    return open_release(path)


def toy_trust(folder: Path, key: MemorySigner = ANNA) -> TrustChain:
    """Write the trust file of a key."""
    envelope = trust([key], [key]).enveloped().signed_by(key, "the trust")
    path = folder / f"trust-{key.key.keyid[:8]}.json"
    path.write_bytes(envelope.to_bytes() + b"\n")
    return read_trust(path)


def toy_board(
    root: Path, environment: Mapping[str, str] = CLOCK, transport: Transport | None = None
) -> Board:
    """Make a board in the folder `root`."""
    root.mkdir(parents=True, exist_ok=True)
    reached = transport or LocalTransport(root, environment=environment)
    return Board(root.name, load_profile("rk3399"), True, True, reached, CLASS, CLASS)


def write_policy(root: Path, **policy: object) -> None:
    """Write what the board's owner decides."""
    file = root / "field" / APP / "policy.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(policy))


def stocked(board: Board, *_: object, **__: object) -> object:
    """Send the installer to a board, as `install` of boards/edge_rt sends edge-rt; return where it is."""
    from toolchain.boards.edge_rt.install import Installed

    stock(board.transport, PROGRAM, installer(), keep=3, executable=True)
    return Installed(PROGRAM, None)


def delivery(folder: Path, version: str = "2.0.0", **changed: object) -> Delivery:
    """Return a release with the trust that boards need."""
    return Delivery(toy_release(folder, version, **changed), toy_trust(folder))
