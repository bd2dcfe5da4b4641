"""Trusts, statements and envelopes by plain Python and PyNaCl, without the toolchain's own code."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from nacl.signing import SigningKey

NOW = 1_790_000_000
DAY = 86_400
RELEASE = "application/vnd.in-toto+json"
TRUST = "application/vnd.edge-toolchain.trust+json"


def key(name: str) -> SigningKey:
    """Return a private key that is drawn from a name."""
    return SigningKey(hashlib.sha256(name.encode()).digest())


ANNA, BERT, CARA, EVE = map(key, ("anna", "bert", "cara", "eve"))


def public(signer: SigningKey) -> bytes:
    """Return a key's public half."""
    return bytes(signer.verify_key)


def keyid(raw: bytes) -> str:
    """Return the id of a public key."""
    return hashlib.sha256(raw).hexdigest()


def message(kind: str, payload: bytes) -> bytes:
    """Return the bytes that are signed."""
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


def envelope(payload: bytes, kind: str, signatures: Sequence[tuple[str, bytes]]) -> bytes:
    """Return an envelope with these ids and signatures."""
    listed = [{"keyid": name, "sig": b64encode(value).decode()} for name, value in signatures]
    whole = {"payloadType": kind, "payload": b64encode(payload).decode(), "signatures": listed}
    return json.dumps(whole).encode()


def sign(payload: Any, kind: str, *signers: SigningKey) -> bytes:
    """Return an envelope of a payload, JSON or bytes, that these keys signed."""
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    signed = message(kind, data)
    return envelope(data, kind, [(keyid(public(s)), s.sign(signed).signature) for s in signers])


def role(threshold: int, *raw: bytes) -> dict[str, Any]:
    """Return a role of a trust."""
    return {"keyids": [keyid(each) for each in raw], "threshold": threshold}


def trust(
    root: Sequence[SigningKey],
    release: Sequence[SigningKey],
    version: int = 1,
    threshold: int = 1,
    root_threshold: int = 1,
    expires: int = NOW + 365 * DAY,
) -> dict[str, Any]:
    """Return a trust."""
    known = {public(each): None for each in (*root, *release)}
    return {
        "format": 1,
        "version": version,
        "expires": expires,
        "keys": [{"keyid": keyid(raw), "public": raw.hex()} for raw in known],
        "root": role(root_threshold, *map(public, root)),
        "release": role(threshold, *map(public, release)),
    }


def by_parts(value: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """Return a statement that says in which parts outputs are compared: `parts` of the first one."""
    value = json.loads(json.dumps(value))
    for number, output in enumerate(value["predicate"]["test"]["outputs"]):
        output["parts"] = {} if number else parts
    return {**value, "predicateType": "urn:edge-toolchain:release:2"}


def statement(version: str = "2.0.0", bundle: str = "ab" * 32, issued: int = NOW) -> dict[str, Any]:
    """Return a statement with an output of each way to compare them."""
    outputs = [
        {"compare": "values", "tolerance_ppb": 1_000_000, "step": None, "values": None},
        {"compare": "log-probabilities", "tolerance_ppb": 1_000_000, "step": None, "values": None},
        {"compare": "equal", "tolerance_ppb": 0, "step": None, "values": None},
        {"compare": "steps", "tolerance_ppb": 2_000_000_000, "step": "0.00390625", "values": 3},
    ]
    names = ["bundle", "manifest.json", "library.so", "sample/0.npy"]
    names += [f"expected/{n}.npy" for n in range(len(outputs))]
    digests = [bundle, *(hashlib.sha256(name.encode()).hexdigest() for name in names[1:])]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": name, "digest": {"sha256": digest}} for name, digest in zip(names, digests, strict=True)
        ],
        "predicateType": "urn:edge-toolchain:release:1",
        "predicate": {
            "app": "tiny",
            "version": version,
            "issued": issued,
            "expires": issued + 90 * DAY,
            "classes": ["rk3399", "rk3399+emulated"],
            "sizes": [100 * (i + 1) for i in range(len(names) - 1)],
            "requires": {
                "arch": "aarch64",
                "glibc": "2.27",
                "tvm": "0.27.0.post1",
                "tvm_ffi": "0.1.14.post1",
                "features": ["asimd"],
                "devices": ["opencl"],
                "functions": ["vm.builtin.copy"],
            },
            "run": {"device": "opencl:Mali-T860", "threads": 2, "cluster": "cortex-a72"},
            "test": {"runs": 5, "timeout_s": 60, "outputs": outputs},
            "budget": {"latency_us": 50_000, "memory_kib": None},
            "verified": {"board_class": "rk3399", "at": NOW - DAY, "error_ppb": 300, "latency_us": 40_000},
            "provenance": {"commit": "0123abcd", "image": "0123"},
        },
    }
