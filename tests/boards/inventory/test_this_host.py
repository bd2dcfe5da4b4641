"""Boards of toolchain.toml that are devices of this machine, or of another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.boards.edge_rt.install import command
from toolchain.boards.inventory.lookup import broken_boards, find_board, list_boards
from toolchain.boards.local.transport import LocalTransport
from toolchain.configuration.settings import configuration
from toolchain.errors import UsageError

HERE = 'class = "local"\nhost = "local"\n'
KEY = 'host_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHUvWkLSsWDhqD3PgTQwhLQ4JkkWzRYWfYAmKx4GL2rF"\n'


@pytest.fixture
def entry(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert not state.exists()
    return tmp_path / "toolchain.toml"


def write(entry: Path, lines: str) -> None:
    entry.write_text(f"[boards.gpu-1]\n{lines}")
    configuration.cache_clear()


def test_a_device_of_this_host_is_a_board(entry: Path) -> None:
    write(entry, f'{HERE}device = "cuda:1"\n')
    board, local = find_board("gpu-1"), find_board("local")
    assert isinstance(board.transport, LocalTransport) and isinstance(local.transport, LocalTransport)
    assert board.only_device == "cuda:1" and board.transport.root != local.transport.root
    assert (board.profile, board.record_class) == (local.profile, local.record_class)
    assert [each.name for each in list_boards()] == ["local", "gpu-1"]


def test_a_device_of_another_host(entry: Path) -> None:
    write(entry, f'class = "cuda"\nhost = "far"\ndevice = "cuda:1"\n{KEY}')
    assert find_board("gpu-1").only_device == "cuda:1"
    write(entry, f'class = "cuda"\nhost = "far"\n{KEY}')
    assert find_board("gpu-1").only_device == ""


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (f'{HERE}device = "cuda"\n', "device"),
        (f'{HERE}device = "cuda:x"\n', "device"),
        ('class = "cuda"\nhost = "local"\n', "other hosts neither"),
        (f'class = "local"\nhost = "far"\n{KEY}', "other hosts neither"),
        ('class = "cuda"\nhost = "far"\n', "host_key is missing"),
    ],
)
def test_refuses_bad_entries(entry: Path, lines: str, says: str) -> None:
    write(entry, lines)
    with pytest.raises(UsageError, match=says):
        find_board("gpu-1")


def test_every_device_has_its_own_lock() -> None:
    assert command("edge-rt", "run", "x")[-2:] == ["--state", "state"]
    assert command("edge-rt", "run", "x", only_device="cuda:1")[3:] == [
        *("--only-device", "cuda:1"),
        *("--state", "state-cuda-1"),
    ]


def test_unusable_folder_does_not_break_listing(entry: Path, state: Path) -> None:
    write(entry, f'{HERE}device = "cuda:1"\n')
    (state / "boards").mkdir(parents=True, mode=0o700)
    (state / "boards" / "gpu-1").symlink_to("gpu-1")
    assert [each.name for each in list_boards()] == ["local"]
    assert "cannot make the folder" in str(broken_boards()["gpu-1"])
