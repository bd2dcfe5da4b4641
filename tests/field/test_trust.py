"""Trusts follow one another, each signed by the keys of the one before and by its own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from nacl.signing import SigningKey

from tests.field.program import Checks, RefusalError, changed
from tests.field.signed import (
    ANNA,
    BERT,
    CARA,
    EVE,
    NOW,
    RELEASE,
    TRUST,
    keyid,
    public,
    sign,
    statement,
    trust,
)

pytestmark = pytest.mark.slow  # the program may have to be compiled

BOTH = [ANNA, BERT]
FIRST = sign(trust(BOTH, [CARA], root_threshold=2), TRUST, ANNA, BERT)


def second(*signers: SigningKey, version: int = 2, root: Any = BOTH, release: Any = (EVE,)) -> bytes:
    return sign(trust(root, list(release), version=version, root_threshold=len(root)), TRUST, *signers)


def test_a_first_trust_is_signed_by_its_own_root(checks: Checks) -> None:
    assert checks.ask("trust", FIRST) == {
        "version": 1,
        "expires": NOW + 365 * 86_400,
        "root": 2,
        "release": 1,
    }
    for signers, kind in (
        ([], "signature"),
        ([CARA], "signature"),
        ([ANNA], "threshold"),
        ([ANNA, ANNA], "threshold"),
    ):
        assert checks.refusal("trust", sign(trust(BOTH, [CARA], root_threshold=2), TRUST, *signers)) == kind


def test_a_successor_is_signed_by_both_roots(checks: Checks) -> None:
    assert checks.ask("newest", FIRST, second(ANNA, BERT))["version"] == 2
    rotated = second(ANNA, BERT, CARA, root=[CARA])
    assert checks.ask("newest", FIRST, rotated) == {
        "version": 2,
        "expires": NOW + 365 * 86_400,
        "root": 1,
        "release": 1,
    }
    for signers, kind in (
        ([CARA], "signature"),  # by itself alone
        ([ANNA, BERT], "signature"),  # by the old root alone
        ([ANNA, CARA], "threshold"),  # by too few of the old root
        ([], "signature"),
    ):
        assert checks.refusal("newest", FIRST, second(*signers, root=[CARA])) == kind, signers


def test_a_release_key_makes_no_trust(checks: Checks) -> None:
    assert checks.refusal("newest", FIRST, second(CARA)) == "signature"


def test_a_version_is_skipped(checks: Checks) -> None:
    assert checks.refusal("newest", FIRST, second(ANNA, BERT, version=3)) == "trust"


def test_a_version_goes_back(checks: Checks) -> None:
    """An old trust, which allowed a key that was stolen since, is not taken again."""
    now = second(ANNA, BERT)
    assert checks.refusal("newest", now, FIRST) == "trust"
    assert checks.ask("newest", now, FIRST, now)["version"] == 2  # passed over


def test_a_fork(checks: Checks) -> None:
    """Another trust with the version that the board has."""
    ours, theirs = second(ANNA, BERT), second(ANNA, BERT, release=[CARA])
    third = second(ANNA, BERT, version=3)
    assert checks.refusal("newest", ours, theirs) == "trust"
    assert checks.refusal("newest", ours, FIRST, theirs, third) == "trust"
    assert checks.ask("newest", ours, FIRST, ours, third)["version"] == 3


def test_one_bad_trust_in_a_chain_spoils_it(checks: Checks) -> None:
    bad = second(CARA)
    assert checks.refusal("newest", FIRST, bad, second(ANNA, BERT, version=3)) == "signature"
    assert checks.refusal("newest", FIRST, second(ANNA, BERT), sign(b"{}", TRUST, ANNA, BERT)) == "trust"


def test_a_revoked_key(checks: Checks) -> None:
    release = sign(statement(), RELEASE, CARA)
    assert checks.ask("release", release, FIRST, NOW)["app"] == "tiny"
    assert checks.refusal("release", release, second(ANNA, BERT), NOW) == "signature"


def test_an_expired_trust_has_a_successor(checks: Checks) -> None:
    old = sign(trust(BOTH, [CARA], root_threshold=2, expires=NOW - 1), TRUST, ANNA, BERT)
    assert checks.ask("newest", old, second(ANNA, BERT))["version"] == 2


def test_the_same_payload_with_another_signature_is_the_same_trust(checks: Checks) -> None:
    payload = trust(BOTH, [CARA], root_threshold=2)
    again = sign(payload, TRUST, BERT, ANNA)
    assert checks.ask("newest", FIRST, again, second(ANNA, BERT))["version"] == 2


GOOD = trust([ANNA, BERT], [CARA])
STRANGER = keyid(public(EVE))
WRONG = {
    "format 2": (["format"], 2),
    "version 0": (["version"], 0),
    "a version as text": (["version"], "1"),
    "a negative end": (["expires"], -1),
    "a float": (["expires"], 1.5),
    "no keys": (["keys"], []),
    "a key twice": (["keys"], lambda keys: [*keys, keys[0]]),
    "33 keys": (["keys"], lambda keys: keys * 11),
    "another id": (["keys", 0, "keyid"], STRANGER),
    "an id in capitals": (["keys", 0, "keyid"], str.upper),
    "a short key": (["keys", 0, "public"], lambda text: text[:-2]),
    "a key that is no point": (["keys", 0], {"keyid": keyid(b"\2" + bytes(31)), "public": "02" + "00" * 31}),
    "another member of a key": (["keys", 0], lambda each: {**each, "scheme": "ed25519"}),
    "a stranger in a role": (["root", "keyids", 0], STRANGER),
    "an id twice in a role": (["root", "keyids"], lambda ids: [ids[0], ids[0]]),
    "no ids in a role": (["release", "keyids"], []),
    "threshold 0": (["release", "threshold"], 0),
    "threshold -1": (["root", "threshold"], -1),
    "a threshold beyond the keys": (["release", "threshold"], 2),
    "another role": ([], lambda value: {**value, "timestamp": value["root"]}),
    "a role is missing": ([], lambda value: {name: value[name] for name in value if name != "release"}),
    "no object": ([], []),
}


@pytest.mark.parametrize(("path", "new"), WRONG.values(), ids=WRONG.keys())
def test_what_is_no_trust(checks: Checks, path: list[str | int], new: Any) -> None:
    assert checks.refusal("trust", sign(changed(GOOD, path, new), TRUST, ANNA)) == "trust"


def test_a_key_of_mixed_order(checks: Checks) -> None:
    """A point with a part of small order: two such keys may have one holder."""
    from nacl.bindings import crypto_core_ed25519_add

    small = bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f")  # of order 2
    mixed = crypto_core_ed25519_add(public(EVE), small)
    extra = changed(GOOD, ["keys"], lambda keys: [*keys, {"keyid": keyid(mixed), "public": mixed.hex()}])
    assert checks.refusal("trust", sign(extra, TRUST, ANNA)) == "trust"


def test_a_refusal_says_what_is_wrong(checks: Checks) -> None:
    with pytest.raises(RefusalError, match=r"trust: keys\[0\]\.public must be 64 hexadecimal digits"):
        checks.ask("trust", sign(changed(GOOD, ["keys", 0, "public"], "x"), TRUST, ANNA))
    with pytest.raises(RefusalError, match=r"trust 1 is signed by 1 of the keys .*; 2 must sign"):
        checks.ask("trust", sign(trust(BOTH, [CARA], root_threshold=2), TRUST, ANNA))
    with pytest.raises(RefusalError, match="trust 3 does not follow trust 1, which this board has"):
        checks.ask("newest", FIRST, second(ANNA, BERT, version=3))


def test_what_the_host_writes_is_read(checks: Checks) -> None:
    from tests.releases import made

    written = made.trust([made.ANNA], [made.BERT]).enveloped().signed_by(made.ANNA, "trust").to_bytes()
    assert checks.ask("trust", written)["version"] == 1
    assert json.loads(written)["payloadType"] == TRUST
