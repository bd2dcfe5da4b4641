"""`toolchain board`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from toolchain.profiles import class_names


@pytest.mark.usefixtures("state")
def test_local_is_always_there(invoke: Toolchain) -> None:
    rows = invoke("board", "list", "--json").document
    assert [(row["name"], row["emulated"]) for row in rows] == [("local", False)]
    assert all(name in invoke("board", "list").out for name in class_names())
    assert invoke("board", "emulate", "list", "--json").document == []


@pytest.mark.usefixtures("state")
def test_show_knows_boards_and_classes(invoke: Toolchain) -> None:
    shown = invoke("board", "show", "rk3399", "--json").document
    assert shown["is_board"] is False and shown["record_class"] == "rk3399"
    assert [cluster["cpu"] for cluster in shown["clusters"]] == ["cortex-a72", "cortex-a53"]
    assert invoke("board", "show", "local", "--json").document["is_board"] is True
    assert "cortex-a53" in invoke("board", "show", "rk3399").out


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_exec_shows_output_as_it_comes(folder: Path) -> None:
    argv = [sys.executable, "-m", "toolchain", "board", "exec", "local", "--"]
    script = f"echo first; read rest; until [ -e {folder}/seen ]; do sleep 0.05; done; exit 7"
    with subprocess.Popen([*argv, "sh", "-c", script], cwd=folder, stdout=subprocess.PIPE) as ran:
        assert ran.stdout is not None and ran.stdout.readline() == b"first\n"
        (folder / "seen").touch()
        assert ran.wait(60) == 7


@pytest.mark.slow
def test_an_emulated_board_comes_and_goes(invoke: Toolchain, state: Path) -> None:
    ran = invoke("board", "emulate", "start", "rk3399", "--kind", "process", "--json")
    assert ran.code == 0, ran.err
    assert ran.document["name"] == "rk3399-emulated" and ran.document["emulated"] is True
    again = invoke("board", "emulate", "start", "rk3399")
    assert again.code == 2 and again.says("rk3399-emulated")
    assert "rk3399-emulated" in invoke("board", "list").out
    (state / "emulated" / "rk3399-emulated" / "board.json").write_text("{")
    assert "rk3399-emulated is broken" in invoke("board", "list").out
    assert invoke("board", "emulate", "stop", "rk3399-emulated").code == 0
    assert invoke("board", "emulate", "list", "--json").document == []


NAMES = [
    (["board", "show", "nosuch"], ["nosuch", "local"]),
    (["board", "emulate", "start", "nosuch"], ["nosuch", "rk3399"]),
    (["board", "emulate", "start", "rk3388"], ["rk3388", "did you mean 'rk3399'?"]),
    (["board", "emulate", "stop", "nosuch"], ["nosuch", "board emulate start CLASS"]),
    (["board", "emulate", "start", "rk3399", "--name", "../x"], ["--name ../x"]),
]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("arguments", "says"), NAMES, ids=[" ".join(row[0]) for row in NAMES])
def test_refuses_unknown_names_and_bad_options(
    invoke: Toolchain, files: Path, arguments: list[str], says: list[str]
) -> None:
    refused(invoke, files, 2, says, *arguments)
    assert "starting an emulated nosuch" not in invoke(*arguments).err


def test_a_broken_board_class_names_file_and_key(invoke: Toolchain, folder: Path) -> None:
    (folder / "toolchain.toml").touch()
    file = folder / "boards" / "mine" / "board.toml"
    file.parent.mkdir(parents=True)
    file.write_text('triple = "arm-linux"\n')
    refused(invoke, folder, 2, [str(file), "triple", "clusters"], "board", "show", "mine")


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_a_group_of_emulated_boards_is_asked_like_any_other(invoke: Toolchain) -> None:
    for name in ("one", "two"):
        options = ("--kind", "process", "--name", name, "--group", "gates", "--group", name)
        started = invoke("board", "emulate", "start", "x86_64", *options, "--json")
        assert started.code == 0, started.err
        assert started.document["groups"] == ["gates", name]
    try:
        asked = invoke("fleet", "status", "--group", "gates", "--json").document["boards"]
        assert [(row["name"], row["state"]) for row in asked] == [("one", "none"), ("two", "none")]
        listed = invoke("board", "emulate", "list", "--json").document
        assert [row["groups"] for row in listed] == [["gates", "one"], ["gates", "two"]]
    finally:
        for name in ("one", "two"):
            invoke("board", "emulate", "stop", name)
