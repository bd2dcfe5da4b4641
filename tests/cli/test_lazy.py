"""Commands in a table: each is imported when it runs, not before."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from toolchain.cli.lazy import ARGUMENTS, LazyGroup

PACKAGE = "lazy_test_commands"
TABLE = {
    "second": "What comes first in the help.",
    "first": "The other one.",
    "broken": "Cannot be imported.",
}


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LazyGroup]:
    """Return a group of three commands, one of which is broken, in another group."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").touch()
    for name in ("first", "second"):
        (folder / f"{name}.py").write_text(
            "import click\n"
            f"@click.command({name!r})\n@click.argument('words', nargs=-1)\n@click.pass_context\n"
            f"def {name}(context, words):\n"
            f"    click.echo(repr((words, context.meta[{ARGUMENTS!r}])))\n"
        )
    (folder / "broken.py").write_text("raise RuntimeError('never imported for others')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield LazyGroup("inner", package=PACKAGE, table=TABLE)
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_help_and_completion_import_no_command(group: LazyGroup) -> None:
    shown = CliRunner().invoke(group, ["--help"])
    assert shown.exit_code == 0
    lines = shown.output.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in lines] == list(TABLE), "in the order of the table"
    offered = group.shell_complete(click.Context(group), "s")
    assert [(each.value, each.help) for each in offered] == [("second", TABLE["second"])]
    assert "--help" in [each.value for each in group.shell_complete(click.Context(group), "--")]
    assert f"{PACKAGE}.second" not in sys.modules


def test_one_command_imports_its_module_alone(group: LazyGroup) -> None:
    ran = CliRunner().invoke(group, ["first", "a"])
    assert ran.exit_code == 0 and ran.output.startswith("(('a',)")
    assert f"{PACKAGE}.first" in sys.modules and f"{PACKAGE}.second" not in sys.modules


@pytest.mark.parametrize("name", ["nosuch", "__init__", "../first", ""])
def test_name_outside_table_is_no_command(group: LazyGroup, name: str) -> None:
    """Whatever lies in the package."""
    assert group.get_command(click.Context(group), name) is None
    ran = CliRunner().invoke(group, [name])
    assert ran.exit_code == 2 and "No such command" in ran.output


def test_inner_group_keeps_whole_command_line(group: LazyGroup) -> None:
    outer = LazyGroup("outer", package="nothing", table={})
    outer.get_command = lambda *_: group  # type: ignore[method-assign]
    ran = CliRunner().invoke(outer, ["inner", "first", "a b", "--", "-x"])
    assert ran.output == f"{(('a b', '-x'), ('inner', 'first', 'a b', '--', '-x'))}\n"
