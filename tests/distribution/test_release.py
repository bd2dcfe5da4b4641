"""`make release` refuses what must not become a version, and says why."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from toolchain import __version__
from tools.distribution import __main__ as distribution
from tools.distribution import changelog, tree
from tools.distribution.site import pack
from tools.distribution.tree import ROOT, copy_tree

WRITTEN = "# Changelog\n\n## [Unreleased]\n\n## [{version}] - 2026-11-27\n\n### Added\n\n- All.\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a repository with one commit, which could be released."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "CHANGELOG.md").write_text(WRITTEN.format(version=__version__))
    (folder / ".gitignore").write_text("/dist/\n")
    named = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    for command in (("init", "-q"), ("add", "."), (*named, "commit", "-q", "-m", "all")):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def test_a_clean_checkout_with_a_section_is_accepted(checkout: Path) -> None:
    assert distribution.refusal(checkout) == ""
    (checkout / "dist").mkdir()
    (checkout / "dist" / "old.whl").write_text("")
    assert distribution.refusal(checkout) == "", "what git ignores is no change"


@pytest.mark.parametrize("name", ["CHANGELOG.md", "toolchain.toml"])
def test_a_change_that_is_not_committed_is_refused(checkout: Path, name: str) -> None:
    (checkout / name).write_text("changed")
    assert name in distribution.refusal(checkout) and "commit first" in distribution.refusal(checkout)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WRITTEN.format(version="0.0.9"), f"no section [{__version__}]"),
        (WRITTEN.format(version=__version__).replace(" - 2026-11-27", ""), "lacks its date"),
        (WRITTEN.format(version=__version__).replace("### Added\n\n- All.\n", ""), "lacks its text"),
        (
            WRITTEN.format(version=__version__).replace("[Unreleased]\n", "[Unreleased]\n\n- More.\n"),
            "[Unreleased]",
        ),
    ],
)
def test_a_version_without_its_own_section_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "CHANGELOG.md").write_text(text)
    assert said in changelog.problem(tmp_path / "CHANGELOG.md", __version__)


def test_this_changelog_has_a_section_of_this_version() -> None:
    assert f"## [{__version__}] - " in (ROOT / "CHANGELOG.md").read_text()


def test_a_refusal_ends_with_2_and_leaves_dist_alone(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tree, "ROOT", checkout)
    monkeypatch.setattr("sys.argv", ["distribution"])
    (checkout / "new").write_text("")
    assert distribution.main() == 2
    assert "new" in capsys.readouterr().err
    assert not (checkout / "dist").exists()


def test_sums_are_those_of_sha256sum(tmp_path: Path) -> None:
    for name in ("b.whl", "a.tar.gz"):
        (tmp_path / name).write_text(name)
    (tmp_path / "SHA256SUMS").write_text(distribution.sums(tmp_path))
    (tmp_path / "SHA256SUMS").write_text(distribution.sums(tmp_path))
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stdout == "a.tar.gz: OK\nb.whl: OK\n"


def test_a_copy_has_what_is_not_committed_and_nothing_that_is_ignored(checkout: Path, tmp_path: Path) -> None:
    (checkout / "new.py").write_text("")
    (checkout / "dist").mkdir()
    (checkout / "dist" / "old.whl").write_text("")
    copy = copy_tree(tmp_path / "copy", checkout)
    assert {path.name for path in copy.iterdir()} == {".gitignore", "CHANGELOG.md", "new.py"}


def test_a_packed_site_depends_on_its_files_alone(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name / "page").mkdir(parents=True)
        (tmp_path / name / "index.html").write_text("start")
        (tmp_path / name / "page" / "index.html").write_text("page")
    (tmp_path / "second" / "index.html").chmod(0o600)
    first, second = (pack(tmp_path / name, tmp_path / f"{name}.zip", 10**9) for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
    shutil.unpack_archive(first, tmp_path / "unpacked")
    (folder,) = (tmp_path / "unpacked").iterdir()
    assert (folder / "page" / "index.html").read_text() == "page"
