"""Small, signed releases of a network that multiplies (installer/network.cc), for tests of the installer."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tests.releases.made import ANNA, BERT, MemorySigner, trust
from toolchain.bundles import layout
from toolchain.releases.envelope import Envelope
from toolchain.releases.statement import RELEASE_TYPE

APP = "toy"
NOW = 1_790_000_000
DAY = 86_400
BOARD_CLASS = "rk3399"
SAMPLE = np.arange(6, dtype="float32")
FACTOR = 2


def npy(array: np.ndarray) -> bytes:
    """Return the bytes of a .npy file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def sha256(data: bytes) -> str:
    """Return a digest in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


LATE = NOW + 20 * 365 * DAY  # edge-rt itself reads this machine's clock
TRUST = trust([ANNA], [ANNA], expires=LATE).enveloped().signed_by(ANNA, "the trust")
NEXT_TRUST = (
    trust([BERT], [BERT], version=2, expires=LATE)
    .enveloped()
    .signed_by(ANNA, "the trust")
    .signed_by(BERT, "the trust")
)


@dataclass(frozen=True)
class Toy:
    """A release of the network; `library` are the words that network.cc reads.

    Attributes
    ----------
    bundle_of
        The version whose bundle it has; empty: its own.
    """

    version: str = "1.0.0"
    library: str = f"times {FACTOR}"
    signers: Sequence[MemorySigner] = (ANNA,)
    padding: int = 200
    changes: Mapping[str, object] = field(default_factory=dict)
    bundle_of: str = ""

    @cached_property
    def parts(self) -> dict[str, bytes]:
        """Contents by name, in the order of the subjects."""
        made_as = self.bundle_of or self.version
        pad = sha256(made_as.encode()) * (self.padding // 64 + 1)
        return {
            "manifest.json": json.dumps({"version": made_as}).encode(),
            "library.so": f"{self.library} {pad}".encode(),
            "sample/0.npy": npy(SAMPLE),
            "expected/0.npy": npy(SAMPLE * FACTOR),
        }

    @cached_property
    def bundle(self) -> bytes:
        """The bundle's file."""
        files: dict[str, bytes] = {}
        for name, part in self.parts.items():
            files[name] = part
            if name == layout.MANIFEST:
                files[layout.MANIFEST_SHA256] = layout.sum_line(sha256(part))
        blocks = [
            layout.header(name, len(file)) + file + layout.padding(len(file)) for name, file in files.items()
        ]
        return b"".join([*blocks, bytes(2 * layout.BLOCK)])

    @cached_property
    def digest(self) -> str:
        """The name of the release on a board."""
        return sha256(self.bundle)

    @cached_property
    def statement(self) -> dict[str, Any]:
        """What is signed."""
        predicate = {
            "app": APP,
            "version": self.version,
            "issued": NOW,
            "expires": NOW + 90 * DAY,
            "classes": [BOARD_CLASS],
            "sizes": [len(part) for part in self.parts.values()],
            "requires": {
                "arch": "toy",
                "glibc": None,
                "tvm": "toy",
                "tvm_ffi": "toy",
                "features": [],
                "devices": [],
                "functions": [],
            },
            "run": {"device": "cpu", "threads": 1, "cluster": "generic"},
            "test": {
                "runs": 3,
                "timeout_s": 20,
                "outputs": [{"compare": "values", "tolerance_ppb": 1000, "step": None, "values": None}],
            },
            "budget": {"latency_us": None, "memory_kib": 48 * 1024},
            "verified": None,
            "provenance": {},
        } | self.changes
        by_parts = "parts" in predicate["test"]["outputs"][0]
        names = {"bundle": self.digest, **{name: sha256(part) for name, part in self.parts.items()}}
        return {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in names.items()],
            "predicateType": f"urn:edge-toolchain:release:{2 if by_parts else 1}",
            "predicate": predicate,
        }

    @cached_property
    def statement_digest(self) -> str:
        """What tells it from other releases of its bundle."""
        return sha256(json.dumps(self.statement).encode())

    @cached_property
    def envelope(self) -> bytes:
        """The signed statement."""
        made = Envelope(RELEASE_TYPE, json.dumps(self.statement).encode())
        for signer in self.signers:
            made = made.signed_by(signer, "the release")
        return made.to_bytes()

    def head(self, trusts: Sequence[Envelope] = (TRUST,), **header: object) -> bytes:
        """Return what stands before the parts."""
        envelopes = [each.to_bytes() for each in trusts]
        line = {
            "app": APP,
            "trust": [len(each) for each in envelopes],
            "release": len(self.envelope),
            "newest": None,
            "downgrade": False,
            "class": BOARD_CLASS,
        } | header
        return b"".join([b"edge-release 1\n", json.dumps(line).encode(), b"\n", *envelopes, self.envelope])

    def file(self, trusts: Sequence[Envelope] = (TRUST,), **header: object) -> bytes:
        """Return a release file."""
        return b"".join([self.head(trusts, **header), *self.parts.values()])


OLD = Toy("1.0.0")
NEW = Toy("2.0.0")
