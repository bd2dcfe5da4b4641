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
    (
        "[boards.rk]\nclass = 'rk3399'\nhots = '10.0.0.1'",
        ["unknown key 'boards.rk.hots'", "did you mean 'host'?"],
    ),
    (
        "[boards.rk]\nclass = 'rk3399'\nhost = '10.0.0.1'\nhost_key = 'ssh-ed25519 AAAA…'",
        ["boards.rk.host_key", "The pinned key of its SSH server", "`toolchain board add`"],
    ),
]


@pytest.mark.parametrize(("text", "says"), CONFIGURATIONS, ids=[row[0] for row in CONFIGURATIONS])
def test_bad_settings_are_reported(
    invoke: Toolchain, folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: list[str]
) -> None:
    monkeypatch.delenv("TOOLCHAIN_ENGINE")
    monkeypatch.delenv("TOOLCHAIN_JOBS")
    (folder / "toolchain.toml").write_text(text)
    refused(invoke, folder, 2, [str(folder / "toolchain.toml"), *says], "board", "list")


def test_bad_environment_variable_is_reported(
    invoke: Toolchain, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCHAIN_JOBS", "x")
    says = ["TOOLCHAIN_JOBS: jobs = 'x'", "set TOOLCHAIN_JOBS to something else, or unset it"]
    refused(invoke, folder, 2, says, "board", "list")


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["tasks", "good.onnx", "--board"], ["requires an argument", "see `toolchain tasks --help`"]),
        (["board", "show", "--frob"], ["--frob", "see `toolchain board show --help`"]),
        (["tun"], ["No such command 'tun'", "Did you mean 'tune'?", "see `toolchain --help`"]),
        (["board", "shwo"], ["Did you mean 'show'?", "see `toolchain board --help`"]),
        (["tasks", "zoo:mobilnet"], ["unknown model 'zoo:mobilnet'", "did you mean 'zoo:mobilenet'?"]),
        (["tasks", "nosuch.txt"], ["unknown model 'nosuch.txt'", "ends in .onnx or .tflite"]),
    ],
)
def test_typing_errors_get_suggestions(
    invoke: Toolchain, files: Path, typed: list[str], says: list[str]
) -> None:
    refused(invoke, files, 2, says, *typed)


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
