"""How a command refuses what it was given."""

from __future__ import annotations

from pathlib import Path

from tests.cli.running import Toolchain


def refused(toolchain: Toolchain, folder: Path, code: int, says: list[str], *arguments: object) -> None:
    """Assert that a command ends as it should, for people and for programs, and leaves no file."""
    before = sorted(folder.rglob("*"))
    ran = toolchain(*arguments)
    assert ran.code == code, ran.err + ran.out
    lines = [line.partition(":")[0] for line in ran.err.splitlines()]
    assert lines.count("error") == lines.count("hint") == 1, ran.err
    assert ran.says(*says), ran.err
    assert "bug" not in ran.err
    ran = toolchain(*arguments, "--json")
    assert ran.code == code
    error = ran.document["error"]
    assert error["code"] == code and error["message"] and error["hint"]
    assert sorted(folder.rglob("*")) == before
