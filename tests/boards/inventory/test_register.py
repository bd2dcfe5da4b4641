"""Boards in `toolchain.toml`: entered and taken out, and all else in the file left alone."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.boards.ssh.test_address import KEY
from toolchain.boards.emulation import emulated
from toolchain.boards.inventory import lookup as inventory
from toolchain.boards.inventory import register
from toolchain.boards.ssh.transport import SshTransport
from toolchain.configuration.file import FILE_NAME
from toolchain.configuration.keys import BoardEntry
from toolchain.configuration.settings import configuration
from toolchain.errors import ToolchainError, UsageError

MINE = (
    "# mine\nboard = 'local'   # why\n\n[boards.old]  # on the desk\nclass = 'rk3399'\nhost = 'old.lan'\n"
    + (f"host_key = '{KEY}'\ngroups = ['desk', 'all']\n")
)


@pytest.fixture
def file(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert state
    monkeypatch.chdir(tmp_path)
    file = tmp_path / FILE_NAME
    file.write_text(MINE)
    return file


def entry(**values: object) -> BoardEntry:
    return BoardEntry.model_validate({"class": "rk3399", "host": "new.lan", "host_key": KEY, **values})


def test_adding_and_removing_board_keeps_rest_of_file(file: Path) -> None:
    assert register.enter("new", entry(user="pi", port=2222, groups=["all"])) == file
    assert file.read_text().startswith(MINE)
    assert tomllib.loads(file.read_text())["boards"]["new"] == {
        "class": "rk3399",
        "host": "new.lan",
        "port": 2222,
        "user": "pi",
        "host_key": KEY,
        "groups": ["all"],
    }
    board = inventory.find_board("new")
    assert (board.emulated, board.shared_cpu, board.tracker_key, board.record_class) == (
        *(False, False),
        *("rk3399", "rk3399"),
    )
    assert isinstance(board.transport, SshTransport)
    assert (board.transport.address.user, board.transport.root) == ("pi", ".edge-toolchain")
    register.take_out("new")
    register.take_out("old")
    assert file.read_text().startswith("# mine\nboard = 'local'   # why\n")
    assert [board.name for board in inventory.list_boards()] == ["local"]


def test_keeps_line_endings(file: Path) -> None:
    file.write_bytes(MINE.replace("\n", "\r\n").encode())
    configuration.cache_clear()
    register.enter("new", entry())
    assert file.read_bytes().startswith(MINE.replace("\n", "\r\n").encode())


def test_a_link_to_the_file_stays_a_link(file: Path) -> None:
    file.rename(file.with_name("real.toml"))
    file.symlink_to("real.toml")
    register.enter("new", entry())
    assert file.is_symlink() and "new.lan" in file.with_name("real.toml").read_text()


def test_a_first_file_is_made(file: Path) -> None:
    file.unlink()
    configuration.cache_clear()
    assert register.enter("new", entry()) == file
    assert "# board = " in file.read_text()
    assert inventory.find_board("new").profile.name == "rk3399"


@pytest.mark.usefixtures("file")
def test_a_class_means_its_boards_and_a_group_too() -> None:
    register.enter("new", entry(groups=["all"]))
    register.enter("pi", entry(**{"class": "raspberrypi4"}))
    assert [board.name for board in inventory.find_boards("rk3399")] == ["old", "new"]
    assert inventory.find_board("raspberrypi4").name == "pi"
    assert [board.name for board in inventory.group("all")] == ["old", "new"]
    assert inventory.find_target("rk3399").board is None
    assert inventory.find_target("old").record_class == "rk3399"
    with pytest.raises(UsageError, match=r"--group x: .*") as raised:
        inventory.group("x")
    assert raised.value.hint == "the groups are: all, desk"
    with pytest.raises(UsageError, match=r"x86_64.*a board class"):
        inventory.find_board("x86_64")


@pytest.mark.parametrize(
    ("wanted", "host", "name"),
    [("a", "x", "a"), (None, "pi.lan", "pi"), (None, "10.0.0.7", "10.0.0.7"), (None, "fe80::1", "fe80--1")],
)
@pytest.mark.usefixtures("file")
def test_names_come_from_hosts(wanted: str | None, host: str, name: str) -> None:
    assert register.free_name(wanted, host) == name


@pytest.mark.parametrize("name", ["old", "local", "rk3399", "-x", "a b", "../x", "x" * 64])
@pytest.mark.usefixtures("file")
def test_refuses_taken_or_malformed_names(name: str) -> None:
    with pytest.raises(UsageError, match=name[:60]) as raised:
        register.free_name(name, "host")
    assert "--name" in raised.value.hint


def test_a_name_belongs_to_one_board_of_the_file_or_emulated(file: Path, state: Path) -> None:
    with pytest.raises(UsageError, match=f"--name old: taken by a board of {file}") as raised:
        emulated.start("rk3399", "process", name="old")
    assert "--name old-emulated" in raised.value.hint
    (state / "emulated" / "mine").mkdir(parents=True)
    with pytest.raises(UsageError, match="--name mine: taken by an emulated board"):
        register.free_name(None, "mine.lan")


def test_broken_board_is_reported_and_others_work(file: Path) -> None:
    file.write_text(MINE + f'[boards.odd]\nclass = "rk9"\nhost = "h"\nhost_key = "{KEY}"\n')
    configuration.cache_clear()
    assert [board.name for board in inventory.list_boards()] == ["local", "old"]
    assert "no board class 'rk9'" in str(inventory.broken_boards()["odd"])
    file.write_text(MINE.replace(KEY, "ssh-ed25519 AAAA"))
    configuration.cache_clear()
    with pytest.raises(UsageError, match=r"\[boards.old\]: 'ssh-ed25519 AAAA' is not a host key"):
        inventory.find_board("old")
    file.write_text(MINE + "port = 0\n")
    configuration.cache_clear()
    with pytest.raises(UsageError, match=r"boards.old.port = 0"):
        configuration()


def test_a_file_that_cannot_be_written_is_as_it_was(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ToolchainError, match="No space left"):
        register.enter("new", entry())
    assert file.read_text() == MINE


def test_a_board_names_what_brings_releases_to_it(file: Path) -> None:
    own = "\n[boards.mine]\nclass = 'local'\nhost = 'local'\ncarrier = 'mailbox'\n"
    file.write_text(f"{MINE}carrier = 'hawk'\n{own}")
    boards = {board.name: board.carrier for board in inventory.list_boards()}
    assert boards == {"local": "ssh", "old": "hawk", "mine": "mailbox"}
    file.write_text(f"{MINE}carrier = '../hawk'\n")
    configuration.cache_clear()
    with pytest.raises(UsageError, match="carrier"):
        inventory.list_boards()
