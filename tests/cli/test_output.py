"""What commands print: one exact document, or aligned lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.screen import screen
from toolchain.cli import output

# What terminals obey, what JSON escapes, a byte that is no text, and letters of two planes.
texts = st.text(st.sampled_from('a"\\/\n\t\0\x1b\x7f\u202eé漢😀\udcff'), max_size=5)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(documents)
def test_a_document_reads_back_as_it_was(document: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        reading, writing = os.pipe()
        with os.fdopen(writing, "w", encoding="ascii") as stream:
            patch.setattr(sys, "stdout", stream)
            output.print_json(document)
        with os.fdopen(reading, encoding="ascii") as said:
            text = said.read()
    assert json.loads(text) == document
    assert all(character.isprintable() or character == "\n" for character in text)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def test_non_finite_numbers_are_null(capfd: pytest.CaptureFixture[str]) -> None:
    output.print_json({"a": float("nan"), "b": [float("inf"), (-float("inf"), 1.5)], "c": Path("x\udcff")})
    document = json.loads(capfd.readouterr().out, parse_constant=refuse)
    assert document == {"a": None, "b": [None, [None, 1.5]], "c": "x\udcff"}


@click.group()
@output.output_options
def group() -> None:
    pass


@group.command()
@output.output_options
def show() -> None:
    output.emit({"answer": 42}, lambda: click.echo("forty-two"))


@pytest.mark.parametrize("arguments", [["--json", "show"], ["show", "--json"], ["--json", "show", "--json"]])
def test_json_is_asked_for_before_or_after_the_command(arguments: list[str]) -> None:
    assert json.loads(CliRunner().invoke(group, arguments).output) == {"answer": 42}


def test_without_json_text_is_printed() -> None:
    assert CliRunner().invoke(group, ["show"]).output == "forty-two\n"


PROGRAM = """
import os, subprocess, sys
from toolchain.cli import output
try:
    with output.keep_stdout_for_the_document():
        print("from Python")
        os.write(1, b"from C\\n")
        subprocess.run(["echo", "from a child"])
        output.print_json([1])
        raise KeyError
except KeyError:
    print("afterwards", output.stdout() is sys.stdout)
"""


def test_the_document_stands_alone_on_stdout_whoever_prints() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "[\n  1\n]\nafterwards True\n"
    assert sorted(done.stderr.splitlines()) == ["from C", "from Python", "from a child"]


def test_columns_are_as_wide_as_what_is_in_them(capfd: pytest.CaptureFixture[str]) -> None:
    output.table(["NAME", "MS", "NOTE"], [("a-long-name", 1.5, None), ("b", None, "x")])
    assert capfd.readouterr().out.splitlines() == [
        "NAME         MS   NOTE",
        "a-long-name  1.5",
        "b                 x",
    ]


def test_empty_table_prints_headers(capfd: pytest.CaptureFixture[str]) -> None:
    output.table(["NAME", "MS"], [])
    assert capfd.readouterr().out == "NAME  MS\n"


def test_a_cell_with_line_ends_stays_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    output.table(["NAME"], [("two\nlines\x1b[31m",)])
    assert capfd.readouterr().out.splitlines() == ["NAME", r"two\nlines\x1b[31m"]


def test_on_a_terminal_a_name_is_no_markup() -> None:
    with screen() as shown:
        output.table(["NAME"], [("[bold]a[/bold] :smile:",)])
        assert "[bold]a[/bold] :smile:" in shown.shows()
