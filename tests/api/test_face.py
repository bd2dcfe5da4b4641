"""`import toolchain`: which names it offers, and what it costs to ask for them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import toolchain
from docs.generate import REFERENCE

STUB = Path(toolchain.__file__).with_suffix(".pyi")
LIGHT = ("find_board", "list_boards", "read_bundle", "ModelOptions", "CodeOptions", "ToolchainError")


def test_the_types_are_those_of_the_names() -> None:
    imported = {
        alias.asname: node.module
        for node in ast.parse(STUB.read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == toolchain._MODULES


def test_every_name_is_found_where_the_stub_says() -> None:
    for name in toolchain.__all__:
        found = getattr(toolchain, name)
        assert found.__name__ == name
        assert found is getattr(toolchain, name)
    assert set(toolchain.__all__) <= set(dir(toolchain))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'compile'"):
        _ = toolchain.compile  # type: ignore[attr-defined]
    with pytest.raises(ImportError):
        from toolchain import compile  # type: ignore[attr-defined]  # noqa: F401


def test_rooms_do_not_hide_names() -> None:
    """A room is an attribute of the package once it is imported, whatever was there."""
    rooms = {path.stem for path in STUB.parent.iterdir()}
    assert rooms.isdisjoint(toolchain.__all__)


def test_nothing_is_imported_before_it_is_used() -> None:
    def imported(code: str) -> set[str]:
        asked = "import sys, toolchain; " + code + "; print(*sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", asked], capture_output=True, text=True, check=True, timeout=60
        )
        return {name.partition(".")[0] for name in done.stdout.split()}

    assert imported("pass").isdisjoint({"numpy", "tvm", "click", "pydantic", "paramiko"})
    used = "; ".join(f"toolchain.{name}" for name in LIGHT)
    assert imported(used).isdisjoint({"tvm", "onnx", "click"})


def test_the_reference_has_every_name() -> None:
    page = (REFERENCE / "python.md").read_text()
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        f"## {name}" for name in toolchain.__all__
    ]
