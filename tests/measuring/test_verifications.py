"""What is kept of verifications: bounded, private, and nothing that a damaged file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.measuring import verifications
from toolchain.measuring.verifications import add_latency, forget, remember

BUNDLE, OTHER = "ab" * 32, "cd" * 32


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data" / verifications.FILE_NAME


def test_the_newest_of_each_bundle_and_class_is_kept(file: Path) -> None:
    remember(BUNDLE, "rk3399+emulated", 1e-6, "cpu")
    remember(BUNDLE, "rk3399", 2e-6, "cpu")
    add_latency(BUNDLE, "rk3399", 3.5)
    add_latency(OTHER, "rk3399", 3.5)  # never verified: nothing is kept
    remember(BUNDLE, "rk3399", 4e-6, "cpu")
    found = verifications.verifications(BUNDLE)
    assert set(found) == {"rk3399", "rk3399+emulated"} and verifications.verifications(OTHER) == {}
    assert (found["rk3399"].error, found["rk3399"].latency_ms) == (4e-6, 3.5)
    assert file.stat().st_mode & 0o777 == 0o600


def test_failed_bundle_is_not_verified(file: Path) -> None:
    for board_class in ("rk3399+emulated", "rk3399"):
        remember(BUNDLE, board_class, 1e-6, "cpu")
    forget(BUNDLE, "rk3399")
    forget(OTHER, "rk3399")
    assert set(verifications.verifications(BUNDLE)) == {"rk3399+emulated"} and file.exists()


def test_drops_oldest_verifications(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifications, "MOST", 2)
    for number in range(3):
        remember(BUNDLE, f"class{number}", 0.0, "cpu")
    assert set(verifications.verifications(BUNDLE)) == {"class1", "class2"}
    assert file.exists()


@pytest.mark.parametrize("text", ["", "{}", '[{"sha256": "x"}]', "[" * 1000])
def test_damaged_file_counts_as_empty(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text)
    assert verifications.verifications(BUNDLE) == {}
    remember(BUNDLE, "rk3399", 0.0, "cpu")
    assert set(verifications.verifications(BUNDLE)) == {"rk3399"}
