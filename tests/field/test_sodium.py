"""libsodium's files are those of the pinned source, and the host's PyNaCl has the same."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.field.program import Checks
from toolchain.runtime.fingerprint import NATIVE

pytestmark = pytest.mark.slow  # the program may have to be compiled

ROOT = Path(__file__).parents[2]


def test_they_are_unchanged(tmp_path: Path) -> None:
    """Fetch the source that requirements.lock pins; a PyNaCl with a newer libsodium makes this fail."""
    fetched = tmp_path / "libsodium"
    subprocess.run([ROOT / "tools" / "libsodium.sh", fetched], timeout=600, check=True)
    different = subprocess.run(
        ["diff", "-r", fetched, NATIVE / "libsodium"], capture_output=True, text=True, check=False
    )
    assert different.returncode == 0, f"run tools/libsodium.sh: {different.stdout}"


@given(pieces=st.lists(st.binary(max_size=200), max_size=4))
def test_sha256(checks: Checks, pieces: list[bytes]) -> None:
    assert checks.ask("sha256", *pieces) == hashlib.sha256(b"".join(pieces)).hexdigest()
