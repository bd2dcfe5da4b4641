"""Points of the curve that are no keys."""

from __future__ import annotations

from nacl.bindings import crypto_core_ed25519_add

from tests.field.signed import EVE, public

# libsodium's list: points of small order, with other encodings of them.
SMALL_ORDER = [
    bytes.fromhex(digits)
    for digits in (
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0100000000000000000000000000000000000000000000000000000000000080",
    )
]
"""Anybody can sign for such a key."""

MIXED = crypto_core_ed25519_add(public(EVE), SMALL_ORDER[4])
"""A point with a part of small order: two such keys may have one holder."""

NO_POINT = b"\2" + bytes(31)


def anybodys(point: bytes) -> bytes:
    """Return the signature for a key of small order: R is the key, S is 0."""
    return point + bytes(32)
