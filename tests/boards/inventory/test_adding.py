"""A new board: nothing is entered before all that was typed is right, and the login works."""

from __future__ import annotations

import getpass
import socket
from pathlib import Path

import pytest

from tests.boards.ssh.sshd import Sshd, sshd
from tests.boards.ssh.test_address import KEY
from toolchain.boards.inventory.adding import NewBoard, add_board, public_key
from toolchain.configuration.file import FILE_NAME
from toolchain.errors import ToolchainError, UsageError


def never(*_: str) -> bool:
    raise AssertionError("nobody is asked")


@pytest.fixture
def folder(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert state
    (tmp_path / FILE_NAME).write_text("board = 'local'\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (NewBoard("pi@", "rk3399"), "pi@"),
        (NewBoard("127.0.0.1:99999", "rk3399"), "99999"),
        (NewBoard("127.0.0.1", "rk3398"), "rk3398"),
        (NewBoard("127.0.0.1", "rk3399", name="local"), "local"),
        (NewBoard("127.0.0.1", "rk3399", name="a b"), "a b"),
        (NewBoard("127.0.0.1", "rk3399", identity=Path("gone")), "--identity gone: no such file"),
        (NewBoard("127.0.0.1", "rk3399", identity=Path("~nosuchuser/key")), "/key: no such file"),
    ],
)
def test_refuses_bad_arguments_before_connecting(folder: Path, wanted: NewBoard, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        add_board(wanted, never)
    assert (folder / FILE_NAME).read_text() == "board = 'local'\n"


def test_a_host_where_nobody_listens_is_not_entered(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ToolchainError, match=r"127\.0\.0\.1"):
        add_board(NewBoard(f"127.0.0.1:{port}", "rk3399"), never)
    assert (folder / FILE_NAME).read_text() == "board = 'local'\n"


def test_the_first_key_that_has_a_public_half_is_taken(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("id_rsa", "id_ed25519", "id_ecdsa"))
    second.with_name("id_ed25519.pub").write_text(f"{KEY} me@here\n")
    third.with_name("id_ecdsa.pub").write_text(f"{KEY} other\n")
    assert public_key((first, second, third)) == f"{KEY} me@here"


@pytest.mark.parametrize(
    "content", [b"", b"\n \n", b"\xff\xfe\0", b"-----BEGIN OPENSSH PRIVATE KEY-----\n", b"ssh-ed25519"]
)
def test_a_file_that_is_no_public_key_is_passed_over(tmp_path: Path, content: bytes) -> None:
    """It would be written into the board's authorized_keys."""
    first, second = tmp_path / "a", tmp_path / "b"
    first.with_name("a.pub").write_bytes(content)
    with pytest.raises(UsageError, match=r"no public key to install; looked for .*a\.pub") as caught:
        public_key((first,))
    assert caught.value.hint == "make one: ssh-keygen -t ed25519"
    second.with_name("b.pub").write_text(f"{KEY}\n")
    assert public_key((first, second)) == KEY


def test_of_a_file_with_comments_the_key_is_taken(tmp_path: Path) -> None:
    (tmp_path / "a.pub").write_text(f"# made by hand\n\n {KEY} me\n")
    (tmp_path / "b.pub").mkdir()
    assert public_key((tmp_path / "b", tmp_path / "a")) == f"{KEY} me"


@pytest.mark.slow
@pytest.mark.parametrize(
    "force", ["/usr/sbin/nologin", "/bin/false", "echo hello"], ids=["nologin", "false", "another command"]
)
def test_a_login_that_starts_no_commands_is_not_entered(folder: Path, tmp_path: Path, force: str) -> None:
    with sshd(tmp_path / "sshd", f"ForceCommand {force}") as server:
        address = f"{getpass.getuser()}@127.0.0.1:{server.port}"
        with pytest.raises(UsageError, match="the login works, but it starts no command") as raised:
            add_board(NewBoard(address, "rk3399", name="shut", identity=server.identity), lambda *_: True)
    assert "nothing was changed" in raised.value.message and "nologin" in raised.value.hint
    assert (folder / FILE_NAME).read_text() == "board = 'local'\n"


@pytest.mark.slow
def test_a_login_that_starts_commands_is_entered(folder: Path, server: Sshd) -> None:
    address = f"{getpass.getuser()}@127.0.0.1:{server.port}"
    added = add_board(NewBoard(address, "rk3399", name="open", identity=server.identity), lambda *_: True)
    added.board.transport.close()
    assert added.board.name == "open" and "[boards.open]" in (folder / FILE_NAME).read_text()
