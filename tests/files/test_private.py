"""What this user keeps is for nobody else's eyes, in a home folder that was empty."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.records.samples import put
from toolchain.boards.emulation import emulated, stored
from toolchain.boards.inventory.lookup import local_board
from toolchain.boards.inventory.register import take_out
from toolchain.boards.ssh.address import SshAddress
from toolchain.boards.ssh.hostkeys import write_known_hosts
from toolchain.configuration.settings import configuration, data_dir, state_dir
from toolchain.errors import UsageError
from toolchain.records.store import user_store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home folder, and Debian's usual mask."""
    for name in [name for name in os.environ if name.startswith(("XDG_", "TOOLCHAIN_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    configuration.cache_clear()
    kept = os.umask(0o022)
    yield tmp_path / "home"
    os.umask(kept)
    configuration.cache_clear()


def begin_to_emulate() -> None:
    with emulated._writing():
        pass


def keep_a_record() -> None:
    with user_store() as store:
        put(store, 1.0)


def pin_a_key() -> None:
    write_known_hosts(SshAddress("lab-1", None, None, "ssh-ed25519 AAAA"))


def change_the_boards() -> None:
    with pytest.raises(UsageError, match="there is no board"):
        take_out("b1")


WAYS = {
    "emulate": (begin_to_emulate, ["emulated"]),
    "local": (local_board, ["boards", "boards/local"]),
    "key": (pin_a_key, []),
    "register": (change_the_boards, []),
}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("way", WAYS)
def test_state_folder_is_private(way: str) -> None:
    begin, below = WAYS[way]
    begin()
    for folder in (state_dir(), *(state_dir() / name for name in below)):
        assert mode(folder) == 0o700, folder
    state_dir().chmod(0o755)  # as an earlier version made it
    if way != "key":  # that is pinned
        begin()
        assert mode(state_dir()) == 0o700


@pytest.mark.usefixtures("home")
def test_records_are_private() -> None:
    keep_a_record()
    (database,) = data_dir().glob("*.sqlite")
    assert (mode(data_dir()), mode(database)) == (0o700, 0o600)
    data_dir().chmod(0o755)
    keep_a_record()
    assert mode(data_dir()) == 0o755, "who opens it to others means it"


def test_board_file_is_private(tmp_path: Path) -> None:
    stored.write_state(tmp_path, stored.BoardState(name="b", board_class="rk3399"))
    assert mode(tmp_path / "board.json") == 0o600


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777
