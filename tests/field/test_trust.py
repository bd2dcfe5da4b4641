"""Both ends accept the successors of a trust and nothing else (who must sign: tests/field/attacks)."""

from __future__ import annotations

from typing import Any

import pytest
from nacl.signing import SigningKey

from tests.field.program import Checks, RefusalError, changed
from tests.field.signed import ANNA, BERT, CARA, EVE, NOW, TRUST, keyid, public, sign, trust
from toolchain.errors import CheckError
from toolchain.releases.envelope import parse_envelope
from toolchain.releases.trust import check_chain

pytestmark = pytest.mark.slow  # the program may have to be compiled

BOTH = [ANNA, BERT]
FIRST = sign(trust(BOTH, [CARA], root_threshold=2), TRUST, ANNA, BERT)


def second(*signers: SigningKey, version: int = 2, root: Any = BOTH, release: Any = (EVE,)) -> bytes:
    return sign(trust(root, list(release), version=version, root_threshold=len(root)), TRUST, *signers)


def newest(checks: Checks, *chain: bytes) -> Any:
    """Return what the board says, after the host has taken the chain as well."""
    check_chain([parse_envelope(each, TRUST, "it") for each in chain], "it")
    return checks.ask("newest", *chain)


def test_a_first_trust_and_its_successors(checks: Checks) -> None:
    said = {"version": 1, "expires": NOW + 365 * 86_400, "root": 2, "release": 1}
    assert checks.ask("trust", FIRST) == said
    rotated = second(ANNA, BERT, CARA, root=[CARA])
    assert newest(checks, FIRST, rotated) == said | {"version": 2, "root": 1}
    assert newest(checks, FIRST, rotated, second(CARA, version=3, root=[CARA]))["version"] == 3


def test_what_the_board_has_is_passed_over(checks: Checks) -> None:
    ours = second(ANNA, BERT)
    assert checks.ask("newest", ours, FIRST, ours)["version"] == 2
    assert checks.ask("newest", ours, FIRST, ours, second(ANNA, BERT, version=3))["version"] == 3


def test_an_expired_trust_has_a_successor(checks: Checks) -> None:
    old = sign(trust(BOTH, [CARA], root_threshold=2, expires=NOW - 1), TRUST, ANNA, BERT)
    assert newest(checks, old, second(ANNA, BERT))["version"] == 2


def test_the_same_payload_with_another_signature_is_the_same_trust(checks: Checks) -> None:
    again = sign(trust(BOTH, [CARA], root_threshold=2), TRUST, BERT, ANNA)
    assert checks.ask("newest", FIRST, again, second(ANNA, BERT))["version"] == 2


GOOD = trust([ANNA, BERT], [CARA])
STRANGER = keyid(public(EVE))
WRONG = {
    "format 2": (["format"], 2),
    "a flag as format": (["format"], True),
    "version 0": (["version"], 0),
    "a version as text": (["version"], "1"),
    "a negative end": (["expires"], -1),
    "an end at 0": (["expires"], 0),
    "a float": (["expires"], 1.5),
    "no keys": (["keys"], []),
    "a key twice": (["keys"], lambda keys: [*keys, keys[0]]),
    "33 keys": (["keys"], lambda keys: keys * 11),
    "another id": (["keys", 0, "keyid"], STRANGER),
    "an id in capitals": (["keys", 0, "keyid"], str.upper),
    "a short key": (["keys", 0, "public"], lambda text: text[:-2]),
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
    envelope = sign(changed(GOOD, path, new), TRUST, ANNA)
    assert checks.refusal("trust", envelope) == "trust"
    with pytest.raises(CheckError, match=r"is not a trust|has format 2"):
        check_chain([parse_envelope(envelope, TRUST, "it")], "it")


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
