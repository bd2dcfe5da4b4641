"""What boards' systems are given: files that the programs that read them take."""

from __future__ import annotations

import subprocess
from pathlib import Path, PurePosixPath

import pytest

from toolchain.images.debian import system_files as files


def lines(name: str) -> list[list[str]]:
    return [line.split(":") for line in files.FILES[name][1].splitlines()]


def test_every_user_has_a_group_a_shell_and_a_shadow_entry() -> None:
    users, shadow = lines("etc/passwd"), lines("etc/shadow")
    assert {len(user) for user in users} == {7} and {len(line) for line in shadow} == {9}
    assert {user[0] for user in users} - {"daemon"} == {line[0] for line in shadow}
    groups = {int(group[2]) for group in lines("etc/group")}
    assert {int(user[3]) for user in users} <= groups
    allowed = files.FILES["etc/shells"][1].split()
    assert all(user[6] in (*allowed, "/usr/sbin/nologin") for user in users)
    for names in ([user[0] for user in users], [user[2] for user in users]):
        assert len(set(names)) == len(names)


def test_no_password_fits_and_no_account_is_locked() -> None:
    """sshd without PAM refuses accounts that `!` locks; `*` is no hash of any password."""
    assert {line[1] for line in lines("etc/shadow")} == {"*"}
    assert files.FILES["etc/shadow"][0] & 0o007 == 0


def test_the_user_owns_its_home_folder() -> None:
    (user,) = [user for user in lines("etc/passwd") if user[0] == files.USER]
    assert files.FOLDERS[user[5].lstrip("/")] == (0o755, int(user[2])) == (0o755, files.USER_ID)


def test_paths_are_relative_unique_and_not_dropped() -> None:
    paths = [*files.FILES, *files.LINKS, *files.FOLDERS]
    assert len(set(paths)) == len(paths)
    for name in paths:
        assert not name.startswith("/") and ".." not in PurePosixPath(name).parts
        assert not any(name.startswith(dropped) for dropped in files.DROPPED if dropped.endswith("/")), name


def test_links_stay_inside_the_system() -> None:
    for name, where in files.LINKS.items():
        assert where.startswith("/run") or (PurePosixPath(name).parent / where).parts[0] == "usr"


@pytest.mark.parametrize("name", [name for name, (mode, _) in files.FILES.items() if mode & 0o111])
def test_programs_are_valid_shell(name: str, tmp_path: Path) -> None:
    text = files.FILES[name][1]
    assert text.startswith("#!/bin/sh\n")
    (tmp_path / "program").write_text(text)
    subprocess.run(["sh", "-n", tmp_path / "program"], check=True)


def test_command_exists_in_the_system() -> None:
    (command,) = files.COMMAND
    mode, text = files.FILES[command.lstrip("/")]
    assert mode == 0o755 and text.splitlines()[-1].startswith("exec /usr/sbin/sshd -D")
    assert files.HOST_KEY in text
    assert f"HostKey {files.HOST_KEY}\n" in files.FILES["etc/ssh/sshd_config"][1]


def test_sshd_accepts_keys_only() -> None:
    options = dict(line.split(maxsplit=1) for line in files.FILES["etc/ssh/sshd_config"][1].splitlines())
    for option in ("PasswordAuthentication", "KbdInteractiveAuthentication", "PermitRootLogin", "UsePAM"):
        assert options[option] == "no", option
