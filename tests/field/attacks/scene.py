"""What an attacker brings to both ends: a trust, a release and the bundle's bytes, and how the ends stand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nacl.signing import SigningKey

from tests.field.signed import ANNA, BERT, CARA, RELEASE, TRUST, envelope, key, keyid, message, public
from tests.field.signed import sign as signed
from tests.field.signed import trust as trust_of
from tests.field.toy import BOARD_CLASS, NOW, Toy

RUTH, ROLF = key("ruth"), key("rolf")
ROOT = [RUTH, ROLF]
RELEASERS = [ANNA, BERT, CARA]
TOY = Toy("2.0.0")
PAYLOAD = json.dumps(TOY.statement).encode()


def trust(**changes: Any) -> dict[str, Any]:
    """Return a trust for whose successor two root keys must sign, and two of three keys for a release."""
    given = {"root": ROOT, "release": RELEASERS, "threshold": 2, "root_threshold": 2} | changes
    return trust_of(given.pop("root"), given.pop("release"), **given)


def release(*signers: SigningKey, payload: bytes = PAYLOAD, kind: str = RELEASE) -> bytes:
    """Return an envelope that these keys signed; without any, those of whom the trust wants two."""
    return signed(payload, kind, *(signers or (ANNA, BERT)))


def signature(signer: SigningKey, payload: bytes = PAYLOAD, kind: str = RELEASE) -> tuple[str, bytes]:
    """Return a key's id and its signature."""
    return keyid(public(signer)), signer.sign(message(kind, payload)).signature


def restated(change: Callable[[dict[str, Any]], object], toy: Toy = TOY) -> bytes:
    """Return the release with a changed statement that enough keys signed, as thieves of them would."""
    statement = json.loads(json.dumps(toy.statement))
    change(statement)
    return release(payload=json.dumps(statement).encode())


FIRST = signed(trust(), TRUST, *ROOT)


@dataclass(frozen=True)
class Scene:
    """One try.

    Attributes
    ----------
    trusts
        Envelopes, oldest first: the host's trust file, which the board is sent too.
    had
        The trust that the board has; None: the first of the file.
    bundle
        The host's file.
    parts
        What the board is sent behind the envelopes.
    installed
        Versions that the board committed before, one after the other.
    header
        What is said to the board in the stream's first line, where it isn't the truth.
    policy
        The board's policy.json.
    """

    trusts: Sequence[bytes] = (FIRST,)
    had: bytes | None = None
    release: bytes = field(default_factory=release)
    bundle: bytes = TOY.bundle
    parts: bytes = b"".join(TOY.parts.values())
    now: int = NOW
    installed: Sequence[str] = ()
    header: Mapping[str, object] = field(default_factory=dict)
    policy: Mapping[str, object] = field(default_factory=dict)
    stream: Callable[[bytes], bytes] = bytes

    def sent(self) -> bytes:
        """Return the release file that the board gets."""
        header = {
            "app": TOY.statement["predicate"]["app"],
            "trust": [len(each) for each in self.trusts],
            "release": len(self.release),
            "newest": None,
            "downgrade": False,
            "class": BOARD_CLASS,
        } | self.header
        line = json.dumps(header).encode() + b"\n"
        return self.stream(b"".join([b"edge-release 1\n", line, *self.trusts, self.release, self.parts]))


def with_release(data: bytes) -> Scene:
    """Return the scene in which this envelope is the release."""
    return Scene(release=data)


def with_signatures(*signatures: tuple[str, bytes], payload: bytes = PAYLOAD) -> Scene:
    """Return the scene in which the release has these signatures."""
    return Scene(release=envelope(payload, RELEASE, signatures))


def with_trusts(*trusts: bytes) -> Scene:
    """Return the scene with these trusts."""
    return replace(Scene(), trusts=trusts)


def successor(*signers: SigningKey, **changes: Any) -> bytes:
    """Return a second trust that these keys signed."""
    return signed(trust(**{"version": 2, **changes}), TRUST, *signers)
