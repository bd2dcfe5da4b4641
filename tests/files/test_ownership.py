"""Who else could have written a file: the reader obeys only itself and root."""

from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest

from toolchain.files.ownership import other_writer, placed_by_another

STRANGER, NOBODYS = 65534, 54321  # the latter is nobody's number here
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    file = tmp_path / "settings"
    file.touch()
    file.chmod(0o644)
    return file


def test_own_file_in_own_folder_is_trusted(file: Path) -> None:
    assert other_writer(file) is None


@pytest.mark.parametrize("mode", [0o646, 0o602, 0o777])
def test_world_writable_file_is_not_trusted(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert other_writer(file) == f"{file} can be written by every user"


def test_file_in_a_world_writable_folder_is_not_trusted(file: Path) -> None:
    file.parent.chmod(0o777)
    assert other_writer(file) == f"{file.parent} can be written by every user"
    file.parent.chmod(0o1777)
    assert other_writer(file) is None, "a sticky one, as /tmp is: nobody takes another's file away"


def test_mode_of_a_links_target_counts(file: Path) -> None:
    link = file.with_name("link")
    link.symlink_to(file)
    assert other_writer(link) is None, "every link has mode 777"
    file.chmod(0o666)
    assert other_writer(link) == f"{link} can be written by every user"


@AS_ROOT
@pytest.mark.parametrize(("user", "name"), [(STRANGER, "user nobody"), (NOBODYS, f"user number {NOBODYS}")])
@pytest.mark.parametrize("what", ["file", "folder", "link", "target"])
def test_foreign_owner_is_named(file: Path, user: int, name: str, what: str) -> None:
    link = file.with_name("link")
    link.symlink_to(file)
    changed = {"file": file, "folder": file.parent, "link": link, "target": file}[what]
    os.chown(changed, user, -1, follow_symlinks=False)
    examined = file if what in ("file", "folder") else link
    named = file.parent if what == "folder" else examined
    assert other_writer(examined) == f"{named} belongs to {name}, not to you"


@AS_ROOT
def test_shared_group_may_not_write(file: Path) -> None:
    shared = next(group for group in grp.getgrall() if group.gr_gid not in (0, os.getegid()))
    os.chown(file, -1, shared.gr_gid)
    file.chmod(0o664)
    assert other_writer(file) == f"{file} can be written by the group {shared.gr_name}"
    os.chown(file, -1, NOBODYS)
    assert other_writer(file) == f"{file} can be written by the group {NOBODYS}"
    file.chmod(0o644)
    assert other_writer(file) is None


@AS_ROOT
def test_sudo_user_is_trusted(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(file, STRANGER, -1)
    for uid, trusted in ((str(STRANGER), True), ("1", False), ("", False), ("-1", False), ("root", False)):
        monkeypatch.setenv("SUDO_UID", uid)
        assert (other_writer(file) is None) == trusted, uid


def test_missing_file_raises(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("gone")
    for name in ("gone", "link"):
        with pytest.raises(FileNotFoundError):
            other_writer(tmp_path / name)


@AS_ROOT
def test_link_into_a_foreign_folder_is_not_trusted(file: Path) -> None:
    foreign = file.parent / "theirs"
    foreign.mkdir(mode=0o755)
    target, link = foreign / "mine", file.with_name("link")
    target.touch(mode=0o644)
    link.symlink_to(target)
    assert other_writer(link) is None
    os.chown(foreign, STRANGER, -1)  # they may put another file into its place at any time
    assert other_writer(link) == f"{foreign} belongs to user nobody, not to you"
    foreign.chmod(0o1777)
    assert other_writer(link) is None, "it is sticky"


@AS_ROOT
def test_placed_by_another(file: Path) -> None:
    assert not placed_by_another(file)
    file.parent.chmod(0o1777)
    assert not placed_by_another(file), "it is one's own"
    os.chown(file, STRANGER, -1)
    assert placed_by_another(file)
    file.parent.chmod(0o755)
    assert not placed_by_another(file), "nobody else could: who gave it away?"
    os.chown(file.parent, STRANGER, -1)
    assert placed_by_another(file)
