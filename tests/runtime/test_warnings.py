"""Warnings: each source of ours is compiled with them, and they are errors wherever tests compile."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from toolchain.runtime import ARCHES
from toolchain.runtime.compile import configuration
from toolchain.runtime.fingerprint import NATIVE

pytestmark = pytest.mark.slow  # CMake takes seconds

WARNINGS = {"-Wall", "-Wextra", "-Wshadow", "-Werror"}
FOREIGN = ("/tvm/", "/tvm_ffi/", "/libsodium/")


@pytest.mark.parametrize("arch", ARCHES)
def test_each_source_of_ours_is_compiled_with_warnings_as_errors(arch: str, tmp_path: Path) -> None:
    subprocess.run(configuration(arch, tmp_path), check=True, capture_output=True, timeout=300)
    with_warnings: set[str] = set()
    for words in commands(tmp_path):
        sources = compiled(Path(words[-1]))
        own = {source for source in sources if not any(part in source for part in FOREIGN)}
        if own and Path(words[-1]).stem != "warm":
            assert set(words) >= WARNINGS, words
            with_warnings |= own
    native = [path for path in (NATIVE / "src").rglob("*") if path.suffix in {".c", ".cc"}]
    assert {str(path) for path in native} <= with_warnings


def commands(folder: Path) -> list[list[str]]:
    """Return the compiler's commands in a folder that is configured."""
    ninja = Path(sys.executable).with_name("ninja")
    listed = subprocess.run(
        [ninja, "-C", folder, "-t", "commands"], check=True, capture_output=True, text=True, timeout=60
    )
    words = [shlex.split(line) for line in listed.stdout.splitlines()]
    return [command for command in words if "-c" in command]


def compiled(source: Path) -> set[str]:
    """Return the sources of a translation unit: those that CMake has joined, or the one."""
    if "Unity" not in source.parts:
        return {str(source)}
    lines = [line for line in source.read_text().splitlines() if line.startswith("#include")]
    return {line.split('"')[1] for line in lines}
