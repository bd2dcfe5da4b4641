"""Bundles, keys and terms for the tests of releases."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from nacl.signing import SigningKey

from toolchain.bundles import Manifest, ModelFacts, TargetFacts, Tensor, write_bundle
from toolchain.bundles.manifest import OutputTolerance
from toolchain.releases.envelope import PublicKey
from toolchain.releases.terms import Terms
from toolchain.releases.trust import Role, Trust, TrustedKey

NOW = 1_790_000_000
DAY = 86_400


@dataclass(frozen=True)
class MemorySigner:
    """A private key in memory, drawn from a name."""

    private: SigningKey

    @property
    def key(self) -> PublicKey:
        return PublicKey(self.private.verify_key.encode())

    def sign(self, message: bytes) -> bytes:
        return self.private.sign(message).signature


def signer(name: str) -> MemorySigner:
    return MemorySigner(SigningKey(hashlib.sha256(name.encode()).digest()))


ANNA, BERT, CARA, EVE = map(signer, ("anna", "bert", "cara", "eve"))


def small_bundle(path: Path, **changed: object) -> Path:
    """Write a bundle with an output of each kind of comparison."""
    manifest = Manifest(
        tool_version="0.1.0",
        model=ModelFacts(name="tiny", source_name="tiny.onnx", sha256="ab" * 32, softmax_outputs=("p",)),
        target=TargetFacts(
            triple="aarch64-unknown-linux-gnu", mcpu="cortex-a72", definition={"kind": "llvm"}
        ),
        device="cpu",
        requires=("asimd",),
        arch="aarch64",
        board_class="rk3399",
        emulated=True,
        board="rk3399-emulated",
        cluster="cortex-a72",
        threads=2,
        glibc="2.27",
        inputs=(Tensor(name="x", shape=(1, 3), dtype="float32"),),
        outputs=(
            Tensor(name="p", shape=(1, 4), dtype="float32"),
            Tensor(name="v", shape=(2,), dtype="float32"),
            Tensor(name="n", shape=(), dtype="int64"),
            Tensor(name="q", shape=(2,), dtype="float32"),
        ),
        tolerance=1e-3,
        tolerances=(OutputTolerance(output="q", step=0.00390625, number=2, values=3, reason="8 bits"),),
        tvm="0.27.0.post1",
        tvm_ffi="0.1.14.post1",
        layout="NCHW",
        dtype="float32",
    ).model_copy(update=changed)
    expected = {
        "p": np.array([[0.1, 0.2, 0.3, 0.4]], "float32"),
        "v": np.array([1, 2], "float32"),
        "n": np.array(7, "int64"),
        "q": np.array([0.5, 0.25], "float32"),
    }
    sample = {"x": np.array([[1, 2, 3]], "float32")}
    write_bundle(path, manifest, b"\x7fELF" + bytes(range(256)) * 9, sample, expected)
    return path


def terms(**changed: object) -> Terms:
    values = {
        "app": "tiny",
        "version": "2.0.0",
        "issued": NOW,
        "expires": NOW + 90 * DAY,
        "classes": ["rk3399+emulated"],
        "timeout_s": 60,
    }
    return Terms(**(values | changed))


def trust(
    root: list[MemorySigner],
    release: list[MemorySigner],
    version: int = 1,
    root_threshold: int = 1,
    threshold: int = 1,
    expires: int = NOW + 365 * DAY,
) -> Trust:
    known = {each.key: None for each in (*root, *release)}
    return Trust(
        version=version,
        expires=expires,
        keys=[TrustedKey(keyid=key.keyid, public=key.raw.hex()) for key in known],
        root=Role(keyids=[each.key.keyid for each in root], threshold=root_threshold),
        release=Role(keyids=[each.key.keyid for each in release], threshold=threshold),
    )
