"""Names of boards and classes, and what is said of wrong ones."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from toolchain.boards.emulation import emulated
from toolchain.boards.emulation.stored import read_state, write_state
from toolchain.boards.inventory import lookup as inventory
from toolchain.boards.inventory.lookup import broken_boards, find_board, find_target, list_boards
from toolchain.errors import MissingError, ToolchainError, UsageError


def lay(state: Path, name: str, content: str | None = None) -> Path:
    """Lay an emulated board's folder down as an earlier `start` would have."""
    folder = state / "emulated" / name
    (folder / "root").mkdir(parents=True)
    text = json.dumps({"schema_version": 1, "name": name, "board_class": "rk3399", "kind": "process"})
    (folder / "board.json").write_text(text if content is None else content)
    return folder


def test_local_always_exists(state: Path) -> None:
    board = find_board("local")
    assert (board.name, board.emulated, board.shared_cpu) == ("local", False, True)
    assert board.profile.arch == platform.machine()
    assert board.tracker_key == "local"
    assert board.transport.run(["pwd"]).stdout.decode().strip() == str(state / "boards" / "local")
    assert [b.name for b in list_boards()] == ["local"]


def test_an_emulated_board_keeps_its_records_apart(state: Path) -> None:
    lay(state, "mine")
    board = find_board("mine")
    assert (board.profile.name, board.emulated, board.shared_cpu) == ("rk3399", True, True)
    assert board.record_class == board.tracker_key == "rk3399+emulated"
    assert [b.name for b in list_boards()] == ["local", "mine"]


def test_find_target_takes_class_or_board(state: Path) -> None:
    lay(state, "mine")
    of_class, of_board, local = find_target("rk3399"), find_target("mine"), find_target("local")
    assert of_class.profile == of_board.profile
    assert (of_class.board, of_class.emulated, of_class.record_class) == (None, False, "rk3399")
    assert (of_board.board, of_board.emulated, of_board.record_class) == ("mine", True, "rk3399+emulated")
    assert (local.board, local.emulated) == ("local", False)
    assert local.record_class == find_board("local").profile.name


def test_a_class_is_no_board_where_one_is_needed(state: Path) -> None:
    lay(state, "rk3399-emulated")
    with pytest.raises(UsageError, match=r"^rk3399: .*a board class.*local, rk3399-emulated") as raised:
        find_board("rk3399")
    assert "board rk3399-emulated: `toolchain board emulate start rk3399`" in raised.value.hint
    assert "--board" not in raised.value.hint, "some commands take a board without an option"


@pytest.mark.parametrize("find", [find_board, find_target])
@pytest.mark.usefixtures("state")
def test_unknown_name_lists_and_suggests_names(find: object) -> None:
    assert callable(find)
    with pytest.raises(UsageError, match=r"^rk3999: there is no such board.*local.*rk3399") as raised:
        find("rk3999")
    assert raised.value.hint == "did you mean 'rk3399'?"
    with pytest.raises(UsageError) as raised:
        find("something-else")
    assert "toolchain board list" in raised.value.hint


@pytest.mark.parametrize("name", ["", ".", "..", "../emulated", "/", ".lock"])
def test_names_that_are_paths_are_unknown(state: Path, name: str) -> None:
    lay(state, "mine")
    with pytest.raises(UsageError, match="no such board"):
        find_board(name)


BROKEN = [
    ("", "is broken"),
    ('{"schema_version": 1, "name"', "is broken"),
    ('{"schema_version": 2, "name": "x", "board_class": "rk3399"}', "is broken"),
    ("[]", "is broken"),
]


@pytest.mark.parametrize(("content", "says"), BROKEN)
def test_a_broken_board_says_how_to_clear_it_away_and_then_is_gone(
    state: Path, content: str, says: str
) -> None:
    folder = lay(state, "mine", content)
    with pytest.raises(ToolchainError, match=says) as raised:
        find_board("mine")
    assert str(folder / "board.json") in raised.value.message
    assert "toolchain board emulate stop mine" in raised.value.hint
    assert raised.value.exit_code == 1
    assert [board.name for board in list_boards()] == ["local"]
    assert list(broken_boards()) == ["mine"]
    emulated.stop("mine")
    assert broken_boards() == {}
    assert not folder.exists()


@pytest.mark.parametrize("part", ["board.json", "root"])
def test_a_board_that_lost_a_part_says_which(state: Path, part: str) -> None:
    folder = lay(state, "mine")
    (folder / part).rename(state / "lost")
    with pytest.raises(ToolchainError, match=part):
        find_board("mine")


def test_a_board_whose_class_is_gone_is_broken_too(state: Path) -> None:
    lay(state, "mine", json.dumps({"name": "mine", "board_class": "gone"}))
    assert "no board class 'gone'" in str(broken_boards()["mine"])


def test_reports_unusable_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TOOLCHAIN_STATE_DIR", str(tmp_path / "file"))
    with pytest.raises(ToolchainError, match="cannot make the folder") as raised:
        find_board("local")
    assert "TOOLCHAIN_STATE_DIR" in raised.value.hint


def test_missing_emulator_does_not_break_listing(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(state, "mine")
    monkeypatch.setenv("TOOLCHAIN_QEMU_AARCH64", "no-such-qemu")
    board = inventory.list_boards()[1]
    with pytest.raises(MissingError, match="no-such-qemu"):
        board.transport.run(["bin/x"])


def test_an_emulated_board_can_be_in_a_group(state: Path) -> None:
    lay(state, "mine")
    lay(state, "other")
    emulated.join_groups("mine", ["gates", "doors"])
    emulated.join_groups("other", ["doors"])
    emulated.join_groups("other", ["doors"])
    assert [board.name for board in inventory.group("doors")] == ["mine", "other"]
    assert [board.name for board in inventory.find_boards("gates")] == ["mine"]
    with pytest.raises(UsageError, match="--group windows") as raised:
        inventory.group("windows")
    assert raised.value.hint == "the groups are: doors, gates"


def test_the_state_of_a_board_without_groups_is_read_by_versions_that_know_none(state: Path) -> None:
    file = lay(state, "mine") / "board.json"
    write_state(file.parent, read_state("mine"))
    assert "groups" not in json.loads(file.read_text())


def test_a_table_for_an_emulated_board_says_how_it_gets_a_group(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(state, "rk3399-emulated")
    (tmp_path / "toolchain.toml").write_text('[boards.rk3399-emulated]\ngroups = ["gates"]\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"boards\.rk3399-emulated\.class is missing") as raised:
        find_board("rk3399-emulated")
    assert "toolchain board emulate start CLASS --group G" in raised.value.hint
