"""A site's TLS authorities: on top of the public ones, or a word on what is wrong with the folder."""

from __future__ import annotations

from pathlib import Path

import certifi
import pytest

from toolchain.configuration.settings import configuration
from toolchain.errors import UsageError
from toolchain.images.certificates import bundle, ensure_authorities

PUBLIC = Path(certifi.where()).read_bytes()


def certificate(text: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that the setting names; the cache is the test's own."""
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TOOLCHAIN_TLS_AUTHORITIES", str(tmp_path / "authorities"))
    configuration.cache_clear()
    return tmp_path / "authorities"


def test_without_the_setting_public_authorities_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path / "cache"))
    configuration.cache_clear()
    assert bundle() == PUBLIC
    assert ensure_authorities() is None and list(tmp_path.iterdir()) == []


def test_site_authorities_follow_the_public_ones_by_name(folder: Path) -> None:
    folder.mkdir()
    (folder / "b.crt").write_text(certificate("B"))  # without an end of line, as some are
    (folder / "a.crt").write_text(certificate("A") + "\n")
    (folder / "notes.txt").write_text("no certificate")
    text = bundle().decode()
    assert text.startswith(PUBLIC.decode())
    site_certificates = text.removeprefix(PUBLIC.decode()).split()
    assert [word for word in site_certificates if word in "AB"] == ["A", "B"]
    lines = text.splitlines()
    assert lines.count("-----END CERTIFICATE-----") == PUBLIC.count(b"-----END CERTIFICATE-----") + 2


def test_authorities_file_is_named_by_its_content(folder: Path) -> None:
    folder.mkdir()
    (folder / "a.crt").write_text(certificate("A"))
    first = ensure_authorities()
    assert first is not None and first.read_bytes() == bundle()
    assert ensure_authorities() == first
    (folder / "a.crt").write_text(certificate("B"))
    second = ensure_authorities()
    assert second is not None and second != first and b"\nB\n" in second.read_bytes()


@pytest.mark.parametrize("exists", [False, True])
def test_folder_without_certificates_names_the_setting(folder: Path, exists: bool) -> None:
    if exists:
        folder.mkdir()
        (folder / "a.pem").write_text(certificate("A"))
    with pytest.raises(UsageError, match=rf"TOOLCHAIN_TLS_AUTHORITIES.*{folder} holds no certificates"):
        bundle()


def test_certificates_must_be_pem(folder: Path) -> None:
    folder.mkdir()
    (folder / "a.crt").write_text(certificate("A"))
    (folder / "der.crt").write_bytes(b"\x30\x82\x01")
    with pytest.raises(UsageError, match=rf"{folder}/der\.crt is not a certificate in PEM form") as caught:
        ensure_authorities()
    assert "openssl x509 -inform der" in caught.value.hint
