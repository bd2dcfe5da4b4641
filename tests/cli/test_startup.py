"""Asking for help is instant: nothing heavy is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from toolchain.cli.lazy import LazyGroup
from toolchain.cli.root import COMMANDS, root

HEAVY = set(
    "docker numpy onnx onnxruntime paramiko pydantic rich torch tvm tvm_ffi xgboost".split()  # noqa: SIM905
)

PROGRAM = """
import sys
from toolchain.cli import root as failures, root
for line in sys.argv[1:]:
    failures.run(root.root, line.split())
    print("loaded:", *(name.partition(".")[0] for name in sys.modules), file=sys.stderr)
"""


def loaded_by(*lines: str) -> dict[str, set[str]]:
    """Run command lines in one process; return what was loaded after each."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *lines], capture_output=True, text=True, env={})
    said = [line.split()[1:] for line in done.stderr.splitlines() if line.startswith("loaded:")]
    return {line: set(names) for line, names in zip(lines, said, strict=True)}


@pytest.mark.slow
def test_help_imports_nothing_heavy() -> None:
    lines = ["", "--help", "--version", "nosuch", *(f"{name} --help" for name in COMMANDS), "completion bash"]
    assert [line for line, names in loaded_by(*lines).items() if names & HEAVY] == []


def test_listing_the_zoo_needs_no_compiler() -> None:
    assert not loaded_by("model list")["model list"] & {"tvm", "numpy", "onnx", "onnxruntime"}


def cpu_ms(*arguments: str) -> float:
    """Return the least CPU time of five runs: a busy machine stretches long ones more than short ones."""
    took = []
    for _ in range(5):
        cached = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # from the second run on
        with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, env=cached) as child:
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        took.append((used.ru_utime + used.ru_stime) * 1e3)
    return min(took)


def test_help_is_fast() -> None:
    # A ratio, because test machines are slow; measured: 65 ms to 12 ms.
    assert cpu_ms("-m", "toolchain", "--help") < 15 * cpu_ms("-c", "pass")


@pytest.mark.parametrize("name", COMMANDS)
def test_table_says_what_the_commands_say(name: str) -> None:
    assert isinstance(root, LazyGroup)
    command = root.get_command(click.Context(root), name)
    assert command is not None
    assert COMMANDS[name] == (command.help or "").splitlines()[0]


def test_table_has_every_top_level_command() -> None:
    folder = Path(sys.modules[root.__module__].__file__ or "").parent / "commands"
    modules = [import_module(f"toolchain.cli.commands.{file.stem}") for file in folder.glob("*.py")]
    defined = [
        (name, value)
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, click.Command) and value.callback.__module__ == module.__name__
    ]
    inner = {id(command) for command in _below(command for _, command in defined)}
    assert {name for name, command in defined if id(command) not in inner} == set(COMMANDS)


def _below(commands: Iterable[click.Command]) -> Iterator[click.Command]:
    for command in commands:
        if isinstance(command, click.Group):
            yield from command.commands.values()
