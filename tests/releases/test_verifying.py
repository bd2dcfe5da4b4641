"""Attacks on a release and on a trust, after python-tuf's list: each is refused, and for its own reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.releases.conftest import Release
from tests.releases.made import ANNA, BERT, CARA, DAY, EVE, NOW, MemorySigner, small_bundle, trust
from toolchain.errors import CheckError, ToolchainError
from toolchain.releases.envelope import Envelope, Signature, parse_envelope
from toolchain.releases.keys import PublicKey
from toolchain.releases.signed import SignedRelease, open_release, release_path
from toolchain.releases.statement import RELEASE_TYPE
from toolchain.releases.trust import TRUST_TYPE, Trust, check_chain
from toolchain.releases.verifying import ReleaseKeys, check_release, verify_release

Edit = Callable[[dict[str, Any]], object]


def allowed(*signers: MemorySigner, threshold: int = 1, expires: int = NOW + 365 * DAY) -> ReleaseKeys:
    return ReleaseKeys([each.key for each in signers], threshold, expires)


def checked(bundle: Path, keys: ReleaseKeys, now: int = NOW) -> SignedRelease:
    return verify_release(bundle, keys, now=now)


def refused(why: str, bundle: Path, keys: ReleaseKeys, now: int = NOW) -> None:
    with pytest.raises(CheckError, match=why):
        checked(bundle, keys, now)


def change(bundle: Path, changed: Callable[[Envelope], Envelope]) -> None:
    path = release_path(bundle)
    path.write_bytes(changed(parse_envelope(path.read_bytes(), RELEASE_TYPE, "it")).to_bytes())


def restated(bundle: Path, signer: MemorySigner, edit: Edit) -> None:
    """Change the statement and sign it anew, as a thief of the key would."""

    def again(envelope: Envelope) -> Envelope:
        statement = json.loads(envelope.payload)
        edit(statement)
        return Envelope(RELEASE_TYPE, json.dumps(statement).encode()).signed_by(signer, "it")

    change(bundle, again)


def test_a_right_release_is_accepted(signed: Release) -> None:
    release = checked(signed(ANNA, BERT), allowed(ANNA, BERT, CARA, threshold=2))
    assert (release.release.app, release.release.version) == ("tiny", "2.0.0")
    assert [each.compare for each in release.release.test.outputs] == [
        "log-probabilities", "values", "equal", "steps"
    ]  # fmt: skip
    assert release.release.test.outputs[3].tolerance_ppb == 2_000_000_000


def test_unsigned_below_the_threshold_or_by_a_stranger(signed: Release) -> None:
    refused("0 of the 1", signed(), allowed(ANNA))
    refused("0 of the 1", signed(EVE), allowed(ANNA))
    refused("1 of the 2", signed(ANNA, EVE), allowed(ANNA, BERT, threshold=2))


def test_one_key_counts_once_however_often_it_signs_and_is_listed(signed: Release) -> None:
    bundle = signed(ANNA)

    def twice(envelope: Envelope) -> Envelope:
        (one,) = envelope.signatures
        return replace(envelope, signatures=(one, one, replace(one, keyid=BERT.key.keyid)))

    change(bundle, twice)
    refused("1 of the 2", bundle, allowed(ANNA, BERT, threshold=2))
    refused("1 of the 2", bundle, allowed(ANNA, ANNA, threshold=2))


def test_ids_in_signatures_mean_nothing(signed: Release) -> None:
    bundle = signed(ANNA)
    change(bundle, lambda e: replace(e, signatures=(replace(e.signatures[0], keyid="whoever"),)))
    checked(bundle, allowed(ANNA))
    refused("0 of the 1", bundle, allowed(BERT))


def test_a_changed_payload_or_type(signed: Release) -> None:
    bundle = signed(ANNA)
    change(bundle, lambda e: replace(e, payload=e.payload + b" "))
    refused("0 of the 1", bundle, allowed(ANNA))
    release_path(bundle).write_bytes(
        trust([ANNA], [ANNA]).enveloped().signed_by(ANNA, "it").to_bytes()
    )  # a trust in place of a release
    refused("its type is", bundle, allowed(ANNA))


def test_expired(signed: Release) -> None:
    bundle = signed(ANNA)
    checked(bundle, allowed(ANNA), NOW + 90 * DAY)
    refused("expired on", bundle, allowed(ANNA), NOW + 90 * DAY + 1)
    refused("from the future", bundle, allowed(ANNA), NOW - DAY - 1)
    refused("no release is accepted", bundle, allowed(ANNA, expires=NOW - 1))


def test_mix_and_match(signed: Release) -> None:
    """The release of one bundle beside another, and parts exchanged in the statement."""
    bundle = signed(ANNA)
    small_bundle(bundle, board="another")
    refused("another bundle", bundle, allowed(ANNA))
    small_bundle(bundle)

    def exchange(statement: dict[str, Any]) -> None:
        first, second = statement["subject"][3], statement["subject"][4]
        first["digest"], second["digest"] = second["digest"], first["digest"]

    restated(bundle, ANNA, exchange)
    refused("names another", bundle, allowed(ANNA))


def predicate(**values: object) -> Edit:
    return lambda statement: statement["predicate"].update(values)


def subject(index: int, name: str) -> Edit:
    return lambda statement: statement["subject"][index].update(name=name)


STATEMENTS = [
    ("unknown key", predicate(more=1), "more"),
    ("path outside", subject(2, "../../etc/passwd"), "the parts are not"),
    ("absolute path", subject(2, "/etc/passwd"), "the parts are not"),
    ("other order", subject(1, "library.so"), "the parts are not"),
    ("endless data", predicate(sizes=[2**40] * 7), "more than"),
    ("negative size", predicate(sizes=[-1] * 7), "sizes"),
    ("fewer sizes", predicate(sizes=[1]), "1 sizes for 7 parts"),
    ("sizes as text", predicate(sizes=["1"] * 7), "sizes"),
    ("app outside", predicate(app="../x"), "app"),
    ("app named as a file", predicate(app="trust.json"), "file of the board"),
    ("option as a feature", lambda s: s["predicate"]["requires"].update(features=["--x"]), "features"),
    ("too long a test", lambda s: s["predicate"]["test"].update(timeout_s=86401), "timeout_s"),
    ("app with a line end", predicate(app="x\n"), "app"),
    ("version with metadata", predicate(version="1.0.0+x"), "build metadata"),
    ("no class", predicate(classes=[]), "classes"),
    ("class twice", predicate(classes=["a", "a"]), "occurs twice"),
    ("expires before", predicate(expires=1), "before it is issued"),
    ("a flag for a number", predicate(issued=True), "issued"),
    ("other type", lambda s: s.update(_type="https://in-toto.io/Statement/v0.1"), "_type"),
    ("other predicate", lambda s: s.update(predicateType="urn:edge-toolchain:release:2"), "predicateType"),
]


@pytest.mark.parametrize(("edit", "why"), [row[1:] for row in STATEMENTS], ids=[row[0] for row in STATEMENTS])
def test_statements_that_are_none(signed: Release, edit: Edit, why: str) -> None:
    bundle = signed(ANNA)
    restated(bundle, ANNA, edit)
    refused(why, bundle, allowed(ANNA))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [(b'"app":', b'"app":"a","app":', "twice"), (b'"runs":5', b'"runs":5.0', "not an integer")],
)
def test_payloads_that_are_not_strict(signed: Release, old: bytes, new: bytes, why: str) -> None:
    bundle = signed(ANNA)
    change(bundle, lambda e: Envelope(RELEASE_TYPE, e.payload.replace(old, new)).signed_by(ANNA, "it"))
    refused(why, bundle, allowed(ANNA))


SMALL_ORDER = ["01" + "00" * 31, "00" * 32, "ec" + "ff" * 30 + "7f", "ee" + "ff" * 30 + "7f"]


@pytest.mark.parametrize("raw", SMALL_ORDER)
def test_keys_for_which_anybody_can_sign_are_none(raw: str) -> None:
    with pytest.raises(ValueError, match="anybody could sign"):
        PublicKey(bytes.fromhex(raw))
    values = trust([ANNA], [ANNA]).model_dump()
    values["keys"] = [{"keyid": "ab" * 32, "public": raw}]
    values["root"]["keyids"] = values["release"]["keyids"] = ["ab" * 32]
    with pytest.raises(CheckError, match="anybody could sign"):
        check_chain([Envelope(TRUST_TYPE, json.dumps(values).encode())], "it")


def test_a_signature_plus_the_order_of_the_group_is_none(signed: Release) -> None:
    bundle = signed(ANNA)
    order = 2**252 + 27742317777372353535851937790883648493

    def other(envelope: Envelope) -> Envelope:
        value = envelope.signatures[0].value
        number = int.from_bytes(value[32:], "little") + order
        return replace(envelope, signatures=(Signature("x", value[:32] + number.to_bytes(32, "little")),))

    change(bundle, other)
    refused("0 of the 1", bundle, allowed(ANNA))


@given(st.data())
def test_no_changed_byte_of_a_release_is_accepted_as_another_statement(data: st.DataObject) -> None:
    envelope = Envelope(RELEASE_TYPE, _PAYLOAD).signed_by(ANNA, "it")
    text = bytearray(envelope.to_bytes())
    at = data.draw(st.integers(0, len(text) - 1))
    text[at] = data.draw(st.integers(0, 255))
    try:
        found = parse_envelope(bytes(text), RELEASE_TYPE, "it")
        check_release(found, allowed(ANNA), "it", NOW)
    except ToolchainError:
        return
    assert found.payload == _PAYLOAD  # the change was in an id, or in how the JSON is written


def _payload() -> bytes:
    import tempfile

    from tests.releases.made import terms
    from toolchain.bundles.read import read_bundle
    from toolchain.releases.stating import state

    with tempfile.TemporaryDirectory() as folder:
        return state(read_bundle(small_bundle(Path(folder) / "b")), terms()).to_bytes()


_PAYLOAD = _payload()


def enveloped(made: Trust, *signers: MemorySigner) -> Envelope:
    envelope = made.enveloped()
    for signer in signers:
        envelope = envelope.signed_by(signer, "it")
    return envelope


FIRST = enveloped(trust([ANNA, BERT], [CARA], root_threshold=2), ANNA, BERT)


def test_a_chain_of_trusts() -> None:
    second = enveloped(trust([BERT, CARA], [CARA], version=2), ANNA, BERT)
    third = enveloped(trust([CARA], [EVE], version=3), CARA)
    assert [each.version for each in check_chain([FIRST, second, third], "it")] == [1, 2, 3]


BAD_CHAINS = [
    ("unsigned", [enveloped(trust([ANNA], [CARA]))], "0 of the 1"),
    ("own threshold", [enveloped(trust([ANNA, BERT], [CARA], root_threshold=2), ANNA)], "1 of the 2"),
    ("old roots did not sign", [FIRST, enveloped(trust([EVE], [EVE], version=2), EVE)], "0 of the 2"),
    ("one old root alone", [FIRST, enveloped(trust([ANNA], [EVE], version=2), ANNA)], "1 of the 2"),
    ("new roots did not sign", [FIRST, enveloped(trust([EVE], [EVE], version=2), ANNA, BERT)], "0 of the 1"),
    ("skipped", [FIRST, enveloped(trust([ANNA], [EVE], version=3), ANNA, BERT)], "version 3 after 1"),
    ("forked", [FIRST, FIRST], "version 1 after 1"),
    ("release key signs a trust", [FIRST, enveloped(trust([CARA], [CARA], version=2), CARA)], "0 of the 2"),
]


@pytest.mark.parametrize(
    ("chain", "why"), [row[1:] for row in BAD_CHAINS], ids=[row[0] for row in BAD_CHAINS]
)
def test_chains_that_are_none(chain: list[Envelope], why: str) -> None:
    with pytest.raises(CheckError, match=why):
        check_chain(chain, "it")


def test_a_revoked_key_signs_no_more(signed: Release) -> None:
    second = trust([ANNA, BERT], [EVE], version=2, root_threshold=2)
    newest = check_chain([FIRST, enveloped(second, ANNA, BERT)], "it")[-1]
    keys = ReleaseKeys(newest.keys_of(newest.release), newest.release.threshold)
    refused("0 of the 1", signed(CARA), keys)


TRUSTS = [
    ("format", {"format": 2}, "format 2"),
    ("version 0", {"version": 0}, "version"),
    ("threshold 0", {"root": {"keyids": [ANNA.key.keyid], "threshold": 0}}, "threshold"),
    ("threshold", {"root": {"keyids": [ANNA.key.keyid], "threshold": 2}}, "threshold"),
    ("no key", {"root": {"keyids": [], "threshold": 1}}, "root"),
    ("stranger", {"root": {"keyids": [EVE.key.keyid], "threshold": 1}}, "not among the keys"),
    ("id twice", {"root": {"keyids": [ANNA.key.keyid] * 2, "threshold": 2}}, "occurs twice"),
    ("wrong id", {"keys": [{"keyid": "00" * 32, "public": ANNA.key.raw.hex()}]}, "the id of"),
    ("key twice", {"keys": [{"keyid": ANNA.key.keyid, "public": ANNA.key.raw.hex()}] * 2}, "occurs twice"),
    ("unknown", {"more": 1}, "more"),
]


@pytest.mark.parametrize(("values", "why"), [row[1:] for row in TRUSTS], ids=[row[0] for row in TRUSTS])
def test_trusts_that_are_none(values: dict[str, object], why: str) -> None:
    made = trust([ANNA], [ANNA]).model_dump(mode="json") | values
    envelope = Envelope(TRUST_TYPE, json.dumps(made).encode()).signed_by(ANNA, "it")
    with pytest.raises(CheckError, match=why):
        check_chain([envelope], "it")


def test_the_statement_has_the_form_of_in_toto(signed: Release) -> None:
    statement = json.loads(open_release(signed(ANNA)).envelope.payload)
    assert set(statement) == {"_type", "subject", "predicateType", "predicate"}
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert all(set(each) == {"name", "digest"} for each in statement["subject"])
    assert len({each["name"] for each in statement["subject"]}) == len(statement["subject"]) == 8
