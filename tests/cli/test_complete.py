"""What is offered after TAB: names that fit, and nothing that spoils the line that is typed."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.shell_completion import CompletionItem

from toolchain.cli import complete
from toolchain.configuration.file import FILE_NAME
from toolchain.images.catalogue import catalogue
from toolchain.models.zoo import ZOO
from toolchain.profiles import class_names

CONTEXT = click.Context(click.Command("build"))
KEY = "ssh-ed25519 " + b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)).decode()
PARAMETER = click.Option(["--board"])

pytestmark = pytest.mark.usefixtures("state")


def names(found: Sequence[str | CompletionItem]) -> list[str]:
    return [each.value if isinstance(each, CompletionItem) else each for each in found]


@pytest.mark.parametrize("typed", ["", "z", "zoo:", "zoo:mob"])
def test_completes_zoo_networks(typed: str) -> None:
    found = complete.models(CONTEXT, PARAMETER, typed)
    assert names(found) == [f"zoo:{name}" for name in ZOO if f"zoo:{name}".startswith(typed)] != []


@pytest.mark.parametrize("typed", ["./net", "model.onnx", "zoo:nosuch"])
def test_completes_files_otherwise(typed: str) -> None:
    (found,) = complete.models(CONTEXT, PARAMETER, typed)
    assert (found.type, found.value) == ("file", typed)


def test_completes_vta_configurations_or_files() -> None:
    assert names(complete.vta_configs(CONTEXT, PARAMETER, "z")) == ["zcu104"]
    (found,) = complete.vta_configs(CONTEXT, PARAMETER, "./mine")
    assert (found.type, found.value) == ("file", "./mine")


def test_boards_of_the_file_come_before_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / FILE_NAME).write_text(f'[boards.rack-1]\nclass = "rk3399"\nhost = "h"\nhost_key = "{KEY}"\n')
    monkeypatch.chdir(tmp_path)
    assert names(complete.boards(CONTEXT, PARAMETER, ""))[:2] == ["local", "rack-1"]
    assert names(complete.boards(CONTEXT, PARAMETER, "r")) == [
        "rack-1", *(name for name in class_names() if name.startswith("r"))
    ]  # fmt: skip
    assert complete.boards(CONTEXT, PARAMETER, "nosuch") == []


@pytest.mark.parametrize("content", ["bord = 1\n", "[boards", '[boards.b]\nclass = "nosuch"\n'])
def test_completion_survives_broken_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    """What is wrong with it is said once a command runs, not into the line that is being typed."""
    (tmp_path / FILE_NAME).write_text(content)
    monkeypatch.chdir(tmp_path)
    assert names(complete.boards(CONTEXT, PARAMETER, "")) == ["local"]
    assert complete.classes(CONTEXT, PARAMETER, "") == complete.emulated(CONTEXT, PARAMETER, "") == []


def test_completes_classes_and_images() -> None:
    assert complete.classes(CONTEXT, PARAMETER, "") == list(class_names())
    assert complete.classes(CONTEXT, PARAMETER, "nosuch") == []
    first = next(iter(catalogue()))
    assert first in complete.images(CONTEXT, PARAMETER, first[:2])
    assert all(name.startswith(first[:2]) for name in complete.images(CONTEXT, PARAMETER, first[:2]))


def test_completes_boards_with_power_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boards = "".join(
        f'[boards.{name}]\nclass = "rk3399"\nhost = "h"\nhost_key = "{KEY}"\n{power}\n'
        for name, power in (("rack-1", ""), ("rack-2", 'power = {cycle = ["relay"]}'))
    )
    (tmp_path / FILE_NAME).write_text(boards)
    monkeypatch.chdir(tmp_path)
    assert names(complete.switched_boards(CONTEXT, PARAMETER, "r")) == ["rack-2"]
    assert names(complete.switched_boards(CONTEXT, PARAMETER, "x")) == []
