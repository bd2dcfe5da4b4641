"""Releases that are right are accepted, and none with a changed byte; tests/field/attacks has the attacks."""

from __future__ import annotations

import json
import tempfile
from functools import lru_cache
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.releases.conftest import Release
from tests.releases.made import ANNA, BERT, CARA, DAY, NOW, MemorySigner, small_bundle, terms, trust
from toolchain.bundles.read import read_bundle
from toolchain.errors import ToolchainError
from toolchain.releases.envelope import Envelope, parse_envelope
from toolchain.releases.signed_release import ReleaseKeys, check_release, open_release, verify_release
from toolchain.releases.statement import RELEASE_TYPE
from toolchain.releases.terms import state
from toolchain.releases.trust import Trust, check_chain


def allowed(*signers: MemorySigner, threshold: int = 1) -> ReleaseKeys:
    return ReleaseKeys([each.key for each in signers], threshold)


def test_a_right_release_is_accepted_until_its_last_second(signed: Release) -> None:
    keys = allowed(ANNA, BERT, CARA, threshold=2)
    release = verify_release(signed(ANNA, BERT), keys, now=NOW + 90 * DAY)
    assert (release.release.app, release.release.version) == ("tiny", "2.0.0")
    assert [each.compare for each in release.release.test.outputs] == [
        "log-probabilities", "values", "equal", "steps"
    ]  # fmt: skip
    assert release.release.test.outputs[3].tolerance_ppb == 2_000_000_000


@lru_cache
def payload() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return state(read_bundle(small_bundle(Path(folder) / "b")), terms()).to_bytes()


@given(st.data())
def test_no_changed_byte_of_a_release_is_accepted_as_another_statement(data: st.DataObject) -> None:
    envelope = Envelope(RELEASE_TYPE, payload()).signed_by(ANNA, "it")
    text = bytearray(envelope.to_bytes())
    at = data.draw(st.integers(0, len(text) - 1))
    text[at] = data.draw(st.integers(0, 255))
    try:
        found = parse_envelope(bytes(text), RELEASE_TYPE, "it")
        check_release(found, allowed(ANNA), "it", NOW)
    except ToolchainError:
        return
    assert found.payload == payload()  # the change was in an id, or in how the JSON is written


def enveloped(made: Trust, *signers: MemorySigner) -> Envelope:
    envelope = made.enveloped()
    for signer in signers:
        envelope = envelope.signed_by(signer, "it")
    return envelope


def test_a_chain_of_trusts() -> None:
    first = enveloped(trust([ANNA, BERT], [CARA], root_threshold=2), ANNA, BERT)
    second = enveloped(trust([BERT, CARA], [CARA], version=2), ANNA, BERT)
    third = enveloped(trust([CARA], [ANNA], version=3), CARA)
    assert [each.version for each in check_chain([first, second, third], "it")] == [1, 2, 3]


def test_the_statement_has_the_form_of_in_toto(signed: Release) -> None:
    statement = json.loads(open_release(signed(ANNA)).envelope.payload)
    assert set(statement) == {"_type", "subject", "predicateType", "predicate"}
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert all(set(each) == {"name", "digest"} for each in statement["subject"])
    assert len({each["name"] for each in statement["subject"]}) == len(statement["subject"]) == 8
