"""Attacks on who signed a release."""

from __future__ import annotations

import json

from tests.field.attacks.attack import Attack
from tests.field.attacks.points import SMALL_ORDER, anybodys
from tests.field.attacks.scene import (
    FIRST,
    PAYLOAD,
    ROLF,
    RUTH,
    Scene,
    release,
    signature,
    with_release,
    with_signatures,
)
from tests.field.signed import ANNA, BERT, EVE, RELEASE, TRUST, key, sign

_ORDER = 2**252 + 27742317777372353535851937790883648493
_NONE, _ONE = "signed by 0 of the 2 trusted keys", "signed by 1 of the 2 trusted keys"
_ANNA, _BERT = signature(ANNA), signature(BERT)


def _flipped(at: int) -> Scene:
    name, value = _ANNA
    broken = bytes(byte ^ (position == at) for position, byte in enumerate(value))
    return with_signatures((name, broken), _BERT)


def _larger() -> tuple[str, bytes]:
    """Return Anna's signature with S + L, the same number."""
    name, value = _ANNA
    number = int.from_bytes(value[32:], "little") + _ORDER
    return name, value[:32] + number.to_bytes(32, "little")


def _altered(payload: bytes) -> Scene:
    return with_signatures(_ANNA, _BERT, payload=payload)


SIGNATURES = [
    Attack("the release is unsigned", [with_signatures()], _NONE, "signature"),
    Attack("a stranger signs it", [with_release(release(EVE, key("mallory")))], _NONE, "signature"),
    Attack("below the threshold", [with_release(release(ANNA))], _ONE, "threshold"),
    Attack("a stranger fills up the threshold", [with_release(release(ANNA, EVE))], _ONE, "threshold"),
    Attack("root keys sign a release", [with_release(release(RUTH, ROLF))], _NONE, "signature"),
    Attack(
        "one key signs twice, under its own id and under those of others",
        [with_signatures(_ANNA, (name, _ANNA[1])) for name in (_ANNA[0], _BERT[0], signature(EVE)[0], "")],
        _ONE,
        "threshold",
    ),
    Attack(
        "a stranger's signature under a trusted key's id",
        [with_signatures(_ANNA, (_BERT[0], signature(EVE)[1]))],
        _ONE,
        "threshold",
    ),
    Attack(
        "the payload is changed after signing",
        [_altered(PAYLOAD.replace(b"2.0.0", b"2.0.1")), _altered(PAYLOAD + b" "), _altered(b"")],
        _NONE,
        "signature",
    ),
    Attack("a bit of a signature is changed", [_flipped(at) for at in (0, 31, 32, 63)], _ONE, "threshold"),
    Attack(
        "a signature in its other form (S + L)",
        [with_signatures(_larger(), _BERT), with_signatures(_ANNA, _larger())],
        _ONE,
        "threshold",
    ),
    Attack(
        "signatures that anybody can make, for keys of small order",
        [with_signatures(*(("", anybodys(point)) for point in SMALL_ORDER))],
        _NONE,
        "signature",
    ),
    Attack(
        "signatures of the same bytes as another type of payload",
        [with_signatures(*(signature(signer, kind=TRUST) for signer in (ANNA, BERT)))],
        _NONE,
        "signature",
    ),
    Attack(
        "another type of payload",
        [
            with_release(release(kind="application/json")),
            with_release(FIRST),
            with_release(release(kind=RELEASE + " ")),
        ],
        "its type is",
        "envelope",
    ),
    Attack(
        "an unsigned payload that would harm a parser",
        [with_release(sign(b"[" * 100_000, RELEASE, EVE)), with_signatures(payload=b"\xff\xfe")],
        _NONE,
        "signature",
    ),
    Attack(
        "the statement of one release in the envelope of another",
        [_altered(json.dumps({**json.loads(PAYLOAD), "subject": []}).encode())],
        _NONE,
        "signature",
    ),
    Attack(
        "more signatures than an envelope may have",
        [with_signatures(*([signature(EVE)] * 15), _ANNA, _BERT)],
        "more than the 16 allowed",
        "envelope",
    ),
]
"""Most of them keep a good signature beside the bad one: it must not count for two."""
