"""Attacks on the check of a release, each refused: python-tuf's list, as far as it applies."""

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
    DAY,
    EVE,
    NOW,
    RELEASE,
    TRUST,
    envelope,
    keyid,
    message,
    public,
    sign,
    statement,
    trust,
)

pytestmark = pytest.mark.slow  # the program may have to be compiled

GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
# Points of small order, with other encodings of them: anybody can sign for such a key (libsodium's list).
SMALL_ORDER = (
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0100000000000000000000000000000000000000000000000000000000000080",
)
ONE = sign(trust([ANNA], [ANNA]), TRUST, ANNA)
TWO_OF_THREE = sign(trust([ANNA], [ANNA, BERT, CARA], threshold=2), TRUST, ANNA)
PAYLOAD = json.dumps(statement()).encode()


def signature(signer: SigningKey, payload: bytes = PAYLOAD, kind: str = RELEASE) -> bytes:
    return signer.sign(message(kind, payload)).signature


def refusal(checks: Checks, release: bytes, board_trust: bytes = ONE, now: int = NOW) -> str:
    return checks.refusal("release", release, board_trust, now)


def test_a_release_that_enough_keys_signed_is_accepted(checks: Checks) -> None:
    answer = checks.ask("release", sign(statement(), RELEASE, ANNA), ONE, NOW)
    assert (answer["app"], answer["version"], answer["digest"]) == ("tiny", "2.0.0", "ab" * 32)
    assert [part[0] for part in answer["parts"]][:3] == ["manifest.json", "library.so", "sample/0.npy"]
    assert (answer["inputs"], answer["outputs"], answer["latency_us"]) == (1, 4, 50_000)
    assert (answer["device"], answer["verified"]) == ("opencl:Mali-T860", "rk3399")
    checks.ask("release", sign(statement(), RELEASE, BERT, CARA), TWO_OF_THREE, NOW)


def test_unsigned(checks: Checks) -> None:
    assert refusal(checks, sign(statement(), RELEASE)) == "signature"


def test_signed_by_a_stranger(checks: Checks) -> None:
    assert refusal(checks, sign(statement(), RELEASE, EVE)) == "signature"


def test_below_the_threshold(checks: Checks) -> None:
    assert refusal(checks, sign(statement(), RELEASE, ANNA, EVE), TWO_OF_THREE) == "threshold"


def test_one_key_signs_twice(checks: Checks) -> None:
    """Under one id, and under those of other keys: keys are counted, not ids."""
    value = signature(ANNA)
    for other in (ANNA, BERT, EVE):
        listed = [(keyid(public(ANNA)), value), (keyid(public(other)), value)]
        assert refusal(checks, envelope(PAYLOAD, RELEASE, listed), TWO_OF_THREE) == "threshold"


def test_ids_decide_nothing(checks: Checks) -> None:
    """A forged id makes no signature, and takes none away."""
    forged = envelope(PAYLOAD, RELEASE, [(keyid(public(ANNA)), signature(EVE))])
    assert refusal(checks, forged) == "signature"
    renamed = envelope(PAYLOAD, RELEASE, [("", signature(BERT)), ("x", signature(CARA))])
    checks.ask("release", renamed, TWO_OF_THREE, NOW)


def test_the_payload_is_altered(checks: Checks) -> None:
    listed = [(keyid(public(ANNA)), signature(ANNA))]
    for payload in (PAYLOAD.replace(b"2.0.0", b"2.0.1"), PAYLOAD + b" ", b""):
        assert refusal(checks, envelope(payload, RELEASE, listed)) == "signature"


def test_nothing_of_an_unsigned_payload_is_parsed(checks: Checks) -> None:
    """A payload that is no JSON is refused for its signature, not for its text."""
    assert refusal(checks, sign(b"[" * 100_000, RELEASE, EVE)) == "signature"
    assert refusal(checks, sign(b"[" * 100_000, RELEASE, ANNA)) == "statement"


def test_a_signature_is_altered(checks: Checks) -> None:
    value = signature(ANNA)
    for at in (0, 31, 32, 63):
        broken = bytearray(value)
        broken[at] ^= 1
        assert refusal(checks, envelope(PAYLOAD, RELEASE, [("", bytes(broken))])) == "signature"


def test_a_signature_in_its_other_form(checks: Checks) -> None:
    """S + L is the same number: whoever accepts it has two signatures for one."""
    value = signature(ANNA)
    larger = int.from_bytes(value[32:], "little") + GROUP_ORDER
    other = value[:32] + larger.to_bytes(32, "little")
    assert refusal(checks, envelope(PAYLOAD, RELEASE, [("", other)])) == "signature"


@pytest.mark.parametrize("point", SMALL_ORDER)
def test_a_key_that_anybody_can_sign_for(checks: Checks, point: str) -> None:
    weak = changed(trust([ANNA], [ANNA]), ["keys"], lambda keys: [*keys, weak_key(point)])
    weak = changed(weak, ["release", "keyids"], [keyid(bytes.fromhex(point))])
    assert checks.refusal("trust", sign(weak, TRUST, ANNA)) == "trust"
    anybody = bytes.fromhex(point) + bytes(32)  # R is the key, S is 0
    assert refusal(checks, envelope(PAYLOAD, RELEASE, [("", anybody)])) == "signature"


def weak_key(point: str) -> dict[str, str]:
    return {"keyid": keyid(bytes.fromhex(point)), "public": point}


def test_another_type_of_payload(checks: Checks) -> None:
    """What a key signed as one thing is not accepted as another."""
    assert refusal(checks, sign(statement(), "application/json", ANNA)) == "envelope"
    assert refusal(checks, sign(statement(), TRUST, ANNA)) == "envelope"
    assert checks.refusal("trust", sign(trust([ANNA], [ANNA]), RELEASE, ANNA)) == "envelope"
    relabelled = envelope(PAYLOAD, RELEASE, [("", signature(ANNA, kind=TRUST))])
    assert refusal(checks, relabelled) == "signature"


def test_a_root_key_signs_a_release(checks: Checks) -> None:
    apart = sign(trust([ANNA], [BERT]), TRUST, ANNA)
    assert refusal(checks, sign(statement(), RELEASE, ANNA), apart) == "signature"


def test_expired(checks: Checks) -> None:
    release = sign(statement(), RELEASE, ANNA)
    checks.ask("release", release, ONE, NOW + 90 * DAY)
    assert refusal(checks, release, now=NOW + 90 * DAY + 1) == "expired"
    old = sign(trust([ANNA], [ANNA], expires=NOW - 1), TRUST, ANNA)
    assert refusal(checks, release, old) == "expired"


def test_a_clock_that_was_set_back(checks: Checks) -> None:
    """An expired release is not accepted on a board whose clock cannot be right."""
    release = sign(statement(), RELEASE, ANNA)
    checks.ask("release", release, ONE, NOW - DAY)
    for now in (NOW - DAY - 1, 0, -1):
        assert refusal(checks, release, now=now) == "clock"


def admit(
    checks: Checks, version: str, installed: str = "", newest: str = "", downgrade: bool = False
) -> Any:
    release = sign(statement(version), RELEASE, ANNA)
    digest = "cd" * 32 if installed else ""
    return checks.ask("admit", release, ONE, NOW, "rk3399", installed, digest, newest, int(downgrade))


def admission_refused(checks: Checks, *args: Any, **options: Any) -> str:
    with pytest.raises(RefusalError) as found:
        admit(checks, *args, **options)
    return found.value.kind


def test_rollback(checks: Checks) -> None:
    admit(checks, "2.0.0")
    admit(checks, "2.0.0", installed="1.9.9")
    admit(checks, "2.0.0", installed="2.0.0-rc.1")
    assert admission_refused(checks, "2.0.0", installed="2.0.1") == "version"
    assert admission_refused(checks, "2.0.0-rc.1", installed="2.0.0") == "version"
    admit(checks, "2.0.0", installed="2.0.1", downgrade=True)


def test_another_bundle_under_the_same_version(checks: Checks) -> None:
    for downgrade in (False, True):
        assert admission_refused(checks, "2.0.0", installed="2.0.0", downgrade=downgrade) == "version"
    release = sign(statement(), RELEASE, ANNA)
    checks.ask("admit", release, ONE, NOW, "rk3399", "2.0.0", "ab" * 32, "", 0)


def test_freeze(checks: Checks) -> None:
    """An old release that was never installed here, where the host knows of a newer one."""
    assert admission_refused(checks, "2.0.0", newest="2.1.0") == "version"
    admit(checks, "2.0.0", newest="2.0.0")


@pytest.mark.parametrize("board_class", ["pynq", "rk339", "rk3399 ", "RK3399", "rk3399+emulate", ""])
def test_another_class(checks: Checks, board_class: str) -> None:
    release = sign(statement(), RELEASE, ANNA)
    assert checks.refusal("admit", release, ONE, NOW, board_class, "", "", "", 0) == "class"


def test_parts_of_two_releases(checks: Checks) -> None:
    """Digests of one release cannot be put into another: they are signed together."""
    ours, theirs = statement(), statement("3.0.0")
    theirs["subject"][2]["digest"]["sha256"] = "ef" * 32
    mixed = changed(ours, ["subject", 2], theirs["subject"][2])
    listed = [("", signature(ANNA, json.dumps(each).encode())) for each in (ours, theirs)]
    assert refusal(checks, envelope(json.dumps(mixed).encode(), RELEASE, listed)) == "signature"


def test_endless_data(checks: Checks) -> None:
    release = sign(statement(), RELEASE, ANNA)
    assert refusal(checks, release + b" " * 262_144) == "envelope"
    assert refusal(checks, b'{"payload":"' + b"A" * 8_000_000) == "envelope"
    assert refusal(checks, sign(b"0" * 190_000, RELEASE, ANNA)) == "statement"


def test_too_many_signatures(checks: Checks) -> None:
    own, other = ("", signature(ANNA)), ("", signature(EVE))
    checks.ask("release", envelope(PAYLOAD, RELEASE, [other] * 15 + [own]), ONE, NOW)
    assert refusal(checks, envelope(PAYLOAD, RELEASE, [other] * 16 + [own])) == "envelope"


ENVELOPES = {
    "no object": [],
    "another member": {"payloadType": RELEASE, "payload": "", "signatures": [], "more": 1},
    "without signatures": {"payloadType": RELEASE, "payload": ""},
    "signatures of another kind": {"payloadType": RELEASE, "payload": "", "signatures": {}},
    "another member of a signature": changed(
        json.loads(sign(statement(), RELEASE, ANNA)), ["signatures", 0], lambda each: {**each, "cert": ""}
    ),
    "a short signature": json.loads(envelope(PAYLOAD, RELEASE, [("", b"x" * 63)])),
    "a long signature": json.loads(envelope(PAYLOAD, RELEASE, [("", b"x" * 65)])),
    "base64 of another alphabet": changed(
        json.loads(envelope(b"\xff\xff\xff", RELEASE, [])), ["payload"], "____"
    ),
    "base64 without padding": changed(json.loads(envelope(b"1", RELEASE, [])), ["payload"], "MQ"),
    "base64 with a line end": changed(json.loads(envelope(b"1", RELEASE, [])), ["payload"], "MQ==\n"),
}


@pytest.mark.parametrize("value", ENVELOPES.values(), ids=ENVELOPES.keys())
def test_what_is_no_envelope(checks: Checks, value: Any) -> None:
    assert refusal(checks, json.dumps(value).encode()) == "envelope"
