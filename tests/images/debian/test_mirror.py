"""Where packages come from: apt's own words, in both of its formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.errors import UsageError
from toolchain.images.debian.unpacking import DEBIAN, debian_mirror


def apt(folder: Path) -> Path:
    (folder / "sources.list.d").mkdir(parents=True)
    return folder


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("deb http://a.example/debian/ bookworm main\n", "http://a.example/debian"),
        (
            "deb [arch=amd64 signed-by=/k] https://b.example/debian bookworm main contrib\n",
            "https://b.example/debian",
        ),
        (
            "deb http://x.example/u jammy main\ndeb http://c.example/debian bookworm main",
            "http://c.example/debian",
        ),
        (
            "deb http://vendor.example/prod bookworm main\n"
            "deb http://proxy.example/debian-remote bookworm main\n"
            "deb http://proxy.example/debian-remote bookworm-updates main\n",
            "http://proxy.example/debian-remote",
        ),
        (
            "deb cdrom:[x]/ bookworm main\ndeb http://d.example/debian bookworm main # y",
            "http://d.example/debian",
        ),
    ],
)
def test_mirror_from_one_line_sources(tmp_path: Path, text: str, expected: str) -> None:
    listed = apt(tmp_path / "apt")
    (listed / "sources.list").write_text(text)
    assert debian_mirror(apt=listed) == expected


STANZAS = """\
# a comment
Types: deb deb-src
URIs: http://security.example/debian-security
Suites: bookworm-security
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: file:/srv/debian
  http://first.example/debian/
Suites: bookworm
 bookworm-updates
Components: main
"""


def test_mirror_from_deb822_sources(tmp_path: Path) -> None:
    listed = apt(tmp_path / "apt")
    (listed / "sources.list.d" / "debian.sources").write_text(STANZAS)
    (listed / "sources.list.d" / "old.save").write_text("deb http://no.example/debian bookworm main\n")
    assert debian_mirror(apt=listed) == "http://first.example/debian"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "deb http://t.example/debian trixie main\ndeb http://b.example/debian bookworm main\n",
            "http://b.example/debian",
        ),
        ("deb http://t.example/debian/ trixie main\n", "http://t.example/debian"),
        ("deb http://s.example/debian-security trixie-security main\n", DEBIAN),
        ("", DEBIAN),
        ("deb http://u.example/ubuntu jammy main\n", DEBIAN),
        ("deb-src http://s.example/debian bookworm main\n", DEBIAN),
        ("# deb http://c.example/debian bookworm main\n", DEBIAN),
        ("deb http://me:secret@p.example/debian bookworm main\n", DEBIAN),
        ("deb [arch=amd64] https://packages.example/repos/code stable main\n", DEBIAN),
        ("deb https://packages.example/debian/12/prod bookworm main\n", DEBIAN),
        (
            "deb https://a.example/flare bookworm main\ndeb http://b.example/pub/debian/ trixie main\n",
            "http://b.example/pub/debian",
        ),
    ],
)
def test_mirror_for_another_suite(tmp_path: Path, text: str, expected: str) -> None:
    listed = apt(tmp_path / "apt")
    (listed / "sources.list").write_text(text)
    assert debian_mirror(apt=listed) == expected


def test_configured_mirror_wins_and_may_hold_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolchain.configuration.settings import configuration

    monkeypatch.setenv("TOOLCHAIN_DEBIAN_MIRROR", "http://set.example/debian/")
    assert debian_mirror() == "http://set.example/debian"
    for elsewhere in ("file:/srv/packages", "http://set.example/debian-remote"):
        configuration.cache_clear()
        monkeypatch.setenv("TOOLCHAIN_DEBIAN_MIRROR", elsewhere)
        assert debian_mirror() == elsewhere
    configuration.cache_clear()
    monkeypatch.setenv("TOOLCHAIN_DEBIAN_MIRROR", "http://me:secret@set.example/debian")
    with pytest.raises(UsageError, match="TOOLCHAIN_DEBIAN_MIRROR") as raised:
        debian_mirror()
    assert "secret" not in str(raised.value)
