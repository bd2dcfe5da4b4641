"""The command line that logs in on a board."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.boards.ssh.test_address import KEY
from toolchain.boards.inventory.lookup import login_command
from toolchain.configuration.file import FILE_NAME
from toolchain.errors import MissingError, UsageError


@pytest.fixture
def boards(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert state
    (tmp_path / FILE_NAME).write_text(
        f"[boards.desk]\nclass = 'rk3399'\nhost = 'desk.lan'\nuser = 'pi'\nport = 2222\nhost_key = '{KEY}'\n"
    )
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("boards")
def test_a_board_is_reached_by_the_ssh_client_with_its_pinned_key(tmp_path: Path) -> None:
    client = tmp_path / "bin" / "ssh"
    client.parent.mkdir()
    client.touch(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{client.parent}{os.pathsep}{os.environ['PATH']}")
        command = login_command("desk")
    assert command[0] == str(client) and command[-2:] == ["--", "desk.lan"]
    options = " ".join(command)
    assert "2222" in options and "pi" in options and "StrictHostKeyChecking=yes" in options
    (known,) = [word.partition("=")[2] for word in command if word.startswith("UserKnownHostsFile=")]
    assert Path(known.strip('"')).read_text() == f"desk {KEY}\n"


@pytest.mark.usefixtures("boards")
def test_a_class_means_its_board(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ssh").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert login_command("rk3399") == login_command("desk")


@pytest.mark.usefixtures("boards")
def test_this_host_needs_no_login() -> None:
    with pytest.raises(UsageError, match="board local is a folder of this host") as caught:
        login_command("local")
    assert "toolchain board exec local -- COMMAND" in caught.value.hint


@pytest.mark.usefixtures("boards")
def test_unknown_board_suggests_close_names() -> None:
    with pytest.raises(UsageError, match="desc") as caught:
        login_command("desc")
    assert "desk" in str(caught.value)


@pytest.mark.usefixtures("boards")
def test_reports_missing_ssh_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="no `ssh` on this machine") as caught:
        login_command("desk")
    assert "apt-get install openssh-client" in caught.value.hint
