"""What commands share: the board, and the settings that say which."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.refusals import refused
from tests.cli.running import Toolchain

CONFIGURATIONS = [
    ("bord = 'local'", ["bord", "board"]),
    ("jobs = 'many'", ["jobs", "'many'"]),
    ("jobs = ", ["toolchain.toml"]),
    ("engine = 'cloud'", ["engine", "'cloud'"]),
]


@pytest.mark.parametrize(("text", "says"), CONFIGURATIONS, ids=[row[0] for row in CONFIGURATIONS])
def test_configuration(
    invoke: Toolchain, folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: list[str]
) -> None:
    monkeypatch.delenv("TOOLCHAIN_ENGINE")
    monkeypatch.delenv("TOOLCHAIN_JOBS")
    (folder / "toolchain.toml").write_text(text)
    refused(invoke, folder, 2, [str(folder / "toolchain.toml"), *says], "board", "list")


def test_a_bad_board_is_reported_with_the_place_it_came_from(
    invoke: Toolchain, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (files / "toolchain.toml").write_text('board = "from-file"\n')
    said = f"{files / 'toolchain.toml'}: board = 'from-file': there is no such board"
    refused(invoke, files, 2, [said], "tasks", "good.onnx")
    monkeypatch.setenv("TOOLCHAIN_BOARD", "from-shell")
    refused(invoke, files, 2, ["TOOLCHAIN_BOARD=from-shell: there is no such board"], "tasks", "good.onnx")
    monkeypatch.setenv("TOOLCHAIN_BOARD", "rk3399")
    with_class = ("tune", "good.onnx", "--trials", 1)
    refused(invoke, files, 2, ["TOOLCHAIN_BOARD=rk3399: that is a board class"], *with_class)
    typed = ("tasks", "good.onnx", "--board", "typed")
    refused(invoke, files, 2, ["--board typed: there is no such board"], *typed)
