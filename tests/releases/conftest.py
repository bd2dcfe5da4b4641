"""A small bundle, keys, and its release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.releases.made import MemorySigner, small_bundle, terms
from toolchain.bundles.read import read_bundle
from toolchain.releases.envelope import Envelope
from toolchain.releases.signed_release import release_path
from toolchain.releases.statement import RELEASE_TYPE
from toolchain.releases.terms import state

Release = Callable[..., Path]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return small_bundle(tmp_path / "tiny.bundle")


@pytest.fixture
def signed(bundle: Path) -> Release:
    """Sign the bundle by keys, with changed terms; return the bundle."""

    def sign(*signers: MemorySigner, **changed: object) -> Path:
        statement = state(read_bundle(bundle), terms(**changed))
        envelope = Envelope(RELEASE_TYPE, statement.to_bytes())
        for signer in signers:
            envelope = envelope.signed_by(signer, "the release")
        release_path(bundle).write_bytes(envelope.to_bytes())
        return bundle

    return sign
