"""Whose `toolchain.toml` is obeyed: a file of another user could name programs to run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Toolchain
from toolchain.configuration.file import FILE_NAME, FILE_VARIABLE, find_file
from toolchain.configuration.settings import configuration, read_configuration
from toolchain.errors import MissingError, UsageError

STRANGER = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "above"
    (folder / "project").mkdir(parents=True)
    file = folder / FILE_NAME
    file.write_text('board = "rk3399"\n')
    file.chmod(0o644)
    folder.chmod(0o755)
    return file


def obeyed(file: Path, **environment: str) -> bool:
    """Return whether the file is obeyed below its folder; a refusal says why and how to allow it."""
    try:
        found = read_configuration(file.parent / "project", environment)
    except UsageError as error:
        assert str(file) in error.message and "not obeyed" in error.message
        assert f"{FILE_VARIABLE}={file}" in error.hint
        return False
    return found.settings.board == "rk3399"


@AS_ROOT
@pytest.mark.parametrize("change", ["file", "link"])
def test_what_another_user_wrote_is_not_obeyed(file: Path, change: str) -> None:
    assert obeyed(file)
    if change == "file":
        os.chown(file, STRANGER, STRANGER)
    else:
        file.rename(file.with_name("other"))
        file.symlink_to("other")
        os.chown(file, STRANGER, STRANGER, follow_symlinks=False)
    assert not obeyed(file)
    assert obeyed(file, **{FILE_VARIABLE: str(file)})
    allowed = read_configuration(file.parent / "project", {FILE_VARIABLE: os.devnull})
    assert allowed.file is None and allowed.settings.board == "local"


@AS_ROOT
def test_a_strangers_file_above_stops_nobody(file: Path, tmp_path: Path) -> None:
    project = file.parent / "project"
    file.parent.chmod(0o1777)
    assert obeyed(file)  # sticky: nobody can put another in its place
    os.chown(file, STRANGER, STRANGER)
    mine = tmp_path / FILE_NAME
    for above in (None, mine):
        if above:
            above.write_text('board = "pynq"\n')
        found = read_configuration(project, {})
        assert (found.file, found.settings.board) == (above, "pynq" if above else "local")
        (warning,) = found.skipped
        assert f"{file} is not obeyed" in warning and f"{FILE_VARIABLE}={file}" in warning
    with pytest.raises(UsageError, match="not obeyed"):
        find_file(file.parent, {})  # who types there may mean it
    file.parent.chmod(0o755)
    os.chown(file.parent, STRANGER, STRANGER)
    assert read_configuration(project, {}).file == mine, "another one's folder"


@AS_ROOT
def test_the_warning_is_printed(invoke: Toolchain, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.parent.chmod(0o1777)
    os.chown(file, STRANGER, STRANGER)
    invoke("model", "list")  # it changes to a folder of its own
    monkeypatch.chdir(file.parent / "project")
    configuration.cache_clear()
    ran = invoke("board", "list", "--json")
    assert ran.code == 0 and ran.document
    assert ran.says("warning: ", f"{file} is not obeyed", "belongs to user nobody")
    configuration.cache_clear()


@AS_ROOT
def test_with_sudo_the_file_of_who_typed_it_is_obeyed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(file, STRANGER, STRANGER)
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    assert obeyed(file)


def test_what_every_user_can_write_is_not_obeyed(file: Path) -> None:
    file.chmod(0o646)
    assert not obeyed(file)
    file.chmod(0o644)
    file.parent.chmod(0o757)
    assert not obeyed(file)


def test_a_group_of_ones_own_may_write(file: Path) -> None:
    file.chmod(0o664)  # Debian's usual mask
    assert obeyed(file)
    if os.geteuid() == 0:
        os.chown(file, -1, 100)  # `users`
        assert not obeyed(file)


def test_a_named_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{FILE_VARIABLE}=nosuch: there is no such file"):
        find_file(tmp_path, {FILE_VARIABLE: "nosuch"})
    os.mkfifo(tmp_path / FILE_NAME)
    assert find_file(tmp_path, {}) == (None, ())  # would block for ever


@pytest.mark.slow
def test_a_user_without_a_home_folder_is_told(tmp_path: Path) -> None:
    program = (
        "import os\n"
        "os.getuid = lambda: 54321  # of whom this machine knows nothing\n"
        "from pathlib import Path\n"
        "from toolchain.configuration.settings import read_configuration\n"
        f"read_configuration(Path({str(tmp_path)!r}), {{}})"
    )
    unset = ("HOME", "TOOLCHAIN_", "XDG_")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(unset)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert f"{MissingError.__name__}: this user has no home folder" in done.stderr
    assert "set HOME" in done.stderr
