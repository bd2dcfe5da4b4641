"""What the shell offers after TAB, asked as the shell asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Toolchain
from toolchain.cli.root import COMMANDS
from toolchain.models.zoo import ZOO
from toolchain.profiles import class_names


def offered(*words: str) -> list[str]:
    """Return what is offered for the last word."""
    done = subprocess.run(
        [sys.executable, "-m", "toolchain"],
        env={
            **os.environ,
            "_TOOLCHAIN_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["toolchain", *words]),
            "COMP_CWORD": str(len(words)),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_names_are_offered() -> None:
    assert offered("") == list(COMMANDS)
    assert offered("model", "inspect", "zoo:") == [f"zoo:{name}" for name in ZOO]
    assert offered("build", "zoo:mobilenet", "--board", "") == ["local", *class_names()]
    assert offered("board", "emulate", "start", "rk") == ["rk3399"]
    assert "--shape" in offered("tune", "zoo:mobilenet", "--sh")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_for_their_shell(invoke: Toolchain, shell: str) -> None:
    ran = invoke("completion", shell)
    assert ran.code == 0 and f"_TOOLCHAIN_COMPLETE={shell}_complete" in ran.out


def test_bash_takes_its_script(invoke: Toolchain, tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(invoke("completion", "bash").out)
    bash = shutil.which("bash")
    assert bash
    ask = f"source {script}; complete -p toolchain"
    done = subprocess.run([bash, "--norc", "-c", ask], capture_output=True, text=True, check=True)
    assert "_toolchain_whole_words" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "answers"),
    [
        (["model", "inspect", "zoo", ":"], list(ZOO)),
        (["model", "inspect", "zoo", ":", "mo"], ["mobilenet"]),
        (["model", "inspect", "zo"], [f"zoo:{name}" for name in ZOO]),
        (["build", "zoo", ":", "mobilenet", "--layout", "N"], ["NCHW", "NHWC"]),
    ],
)
def test_bash_is_answered_within_its_own_words(
    invoke: Toolchain, tmp_path: Path, words: list[str], answers: list[str]
) -> None:
    """Bash ends words at ':' and puts an answer in the place of the last such word."""
    script = tmp_path / "completion"
    script.write_text(invoke("completion", "bash").out)
    ask = (
        'source "$1"; shift; COMP_WORDS=(toolchain "$@"); COMP_CWORD=$#\n'
        '_toolchain_whole_words toolchain; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", ask, "bash", str(script), *words],
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == answers and done.stderr == ""
