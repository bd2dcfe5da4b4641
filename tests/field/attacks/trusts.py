"""Attacks on whose signatures count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nacl.signing import SigningKey

from tests.field.attacks.attack import Attack
from tests.field.attacks.points import MIXED, NO_POINT, SMALL_ORDER
from tests.field.attacks.scene import (
    FIRST,
    RELEASERS,
    ROOT,
    RUTH,
    Scene,
    release,
    successor,
    trust,
    with_trusts,
)
from tests.field.signed import ANNA, BERT, CARA, EVE, NOW, RELEASE, TRUST, keyid, sign

_SECOND = successor(*ROOT)
_THIRD = successor(*ROOT, version=3)
_REVOKED = successor(*ROOT, release=[BERT, CARA, EVE])
_EXPIRED = successor(*ROOT, expires=NOW - 1)


def _first(*signers: SigningKey, **changes: Any) -> Scene:
    return with_trusts(sign(trust(**changes), TRUST, *signers))


def _with_key(raw: bytes) -> Scene:
    """Return the scene of a first trust with this key among those of releases, signed as it must be."""
    made = trust()
    made["keys"].append({"keyid": keyid(raw), "public": raw.hex()})
    made["release"]["keyids"].append(keyid(raw))
    return with_trusts(sign(made, TRUST, *ROOT))


def _second_id() -> Scene:
    """Return a trust that lists one key under two ids."""
    made = trust()
    made["keys"].append({**made["keys"][-1], "keyid": "ab" * 32})
    made["release"]["keyids"].append("ab" * 32)
    return with_trusts(sign(made, TRUST, *ROOT))


TRUSTS = [
    Attack("a first trust is unsigned", [_first()], "signed by 0 of the 2 trusted keys", "signature"),
    Attack(
        "release keys or strangers sign a first trust",
        [_first(ANNA, BERT), _first(EVE)],
        "signed by 0 of",
        "signature",
    ),
    Attack(
        "a first trust is below its own threshold",
        [_first(RUTH), _first(RUTH, ANNA)],
        "signed by 1 of the 2 trusted keys",
        "threshold",
    ),
    Attack("a release in place of a first trust", [with_trusts(release())], "its type is", "trust"),
    Attack("a release in place of a successor", [with_trusts(FIRST, release())], "its type is", "envelope"),
    Attack(
        "a successor without the old root keys",
        [with_trusts(FIRST, successor()), with_trusts(FIRST, successor(EVE, root=[EVE], root_threshold=1))],
        "signed by 0 of the 2 trusted keys",
        "signature",
    ),
    Attack(
        "a successor below the old threshold",
        [with_trusts(FIRST, successor(RUTH, EVE, root=[RUTH, EVE]))],
        "signed by 1 of the 2 trusted keys",
        "threshold",
    ),
    Attack(
        "a successor without its own root keys",
        [with_trusts(FIRST, successor(*ROOT, root=[EVE], root_threshold=1))],
        "signed by 0 of the 1 trusted key",
        "signature",
    ),
    Attack(
        "release keys sign a successor",
        [with_trusts(FIRST, successor(*RELEASERS))],
        "signed by 0 of",
        "signature",
    ),
    Attack("a version of the trust is skipped", [with_trusts(FIRST, _THIRD)], "version 3 after 1", "trust"),
    Attack("the trust goes back", [with_trusts(_SECOND, FIRST)], "version 1 after 2", "trust"),
    Attack(
        "the trust is forked",
        [with_trusts(_SECOND, _REVOKED), with_trusts(_SECOND, _REVOKED, _THIRD)],
        "version 2 after 2",
        "trust",
    ),
    Attack(
        "one bad trust among good ones",
        [with_trusts(FIRST, successor(RUTH), _THIRD)],
        "signed by 1 of the 2 trusted keys",
        "threshold",
    ),
    Attack(
        "a key was revoked", [with_trusts(FIRST, _REVOKED)], "signed by 1 of the 2 trusted keys", "threshold"
    ),
    Attack(
        "the trust has expired",
        [_first(*ROOT, expires=NOW - 1), with_trusts(FIRST, _EXPIRED)],
        "no release is accepted by it",
        "expired",
    ),
    Attack(
        "keys that anybody can sign for",
        [_with_key(point) for point in SMALL_ORDER],
        "anybody could sign for it",
        "trust",
    ),
    Attack(
        "a key of mixed order, or none",
        [_with_key(MIXED), _with_key(NO_POINT)],
        "not a safe Ed25519 key",
        "trust",
    ),
    Attack("one key under two ids", [_second_id()], "the id of", "trust"),
    Attack(
        "a successor that is no trust",
        [with_trusts(FIRST, sign(payload, TRUST, *ROOT)) for payload in (b"{}", b"[" * 100_000)],
        "is not a trust",
        "trust",
    ),
    Attack(
        "endless trusts",
        [replace(Scene(), trusts=[FIRST] * 257)],
        "more than the 256 allowed",
        "stream",
    ),
    Attack(
        "a trust of another type, signed by root keys",
        [with_trusts(sign(trust(), RELEASE, *ROOT))],
        "its type is",
        "envelope",
    ),
]
