"""The files of docs/howto/add-an-architecture.md are those of tests/riscv64, and its C++ compiles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.howto.page import ROOT, blocks
from tests.riscv64.row import RISCV64
from toolchain.architectures.table import PLUGINS
from toolchain.linking.zig import run_zig, zig_cache_environment

PAGE = "add-an-architecture.md"
FOLDER = ROOT / "tests" / "riscv64"
NATIVE = ROOT / "toolchain" / "native"
SHOWN = {
    "python": ("row.py", "machine.py"),
    "cpp": ("arch/cpu.cc", "arch/rates.cc"),
}


@pytest.mark.parametrize(("language", "names"), SHOWN.items(), ids=list(SHOWN))
def test_the_page_shows_the_files_that_are_tested(language: str, names: tuple[str, ...]) -> None:
    assert blocks(PAGE, language) == [(FOLDER / name).read_text() for name in names]


def test_the_class_and_the_entry_point_are_those_of_the_example() -> None:
    board, point = blocks(PAGE, "toml")
    assert board == (FOLDER / "bananapi-f3" / "board.toml").read_text()
    assert f'entry-points."{PLUGINS.group}"' in point and f"{RISCV64.name} = " in point


def test_a_new_architecture_touches_few_files_and_their_folders_exist() -> None:
    text = (ROOT / "docs" / "howto" / PAGE).read_text()
    rows = re.findall(r"^\| `([\w./-]+)` \| ", text.partition("All else follows")[0], re.MULTILINE)
    assert len(rows) <= 8
    for name in rows:
        path = (NATIVE.parent if name.startswith("native/") else ROOT) / name
        assert path.is_file() or path.parents[1].is_dir(), name


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN["cpp"])
def test_the_files_compile(name: str, tmp_path: Path) -> None:
    target = ["-target", f"{RISCV64.zig_target}.2.27"]
    options = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-c", "-o", str(tmp_path / "part.o")]
    folders = [f"-I{NATIVE / 'src'}", f"-I{NATIVE}"]
    done = run_zig(["c++", *target, *options, *folders, str(FOLDER / name)], 240, zig_cache_environment())
    assert done.returncode == 0, done.output
