"""Which lines of requirements.lock tools/venv.sh installs for a set."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

from tools.distribution.locked import LOCKS, Locked, asked_for, lines_of, locked
from tools.distribution.tree import ROOT


def names_of(wanted: str) -> set[str]:
    return {
        line.partition("==")[0] for line in lines_of(wanted).splitlines() if "==" in line and line[0] != " "
    }


def test_each_set_is_a_part_of_the_next_and_lines_are_the_locks_own() -> None:
    assert names_of("compilers") < names_of("demo") < names_of("all")
    assert lines_of("all") == LOCKS[0].read_text()
    blocks = lines_of("compilers").split("\n")
    assert set(blocks) - {""} <= set(LOCKS[0].read_text().splitlines())


def test_the_demo_has_what_users_of_a_wheel_get_and_no_tools_of_this_project() -> None:
    assert asked_for()[""] <= names_of("demo")
    assert {"hatchling", "editables", "cmake", "ninja", "scipy"} <= names_of("demo")
    assert not names_of("demo") & {"mypy", "ruff", "pytest", "hypothesis", "ai-edge-litert", "distributed"}


def test_tvms_sources_are_compiled_without_what_tvm_needs_to_run() -> None:
    assert {"apache-tvm", "ziglang", "cmake", "pydantic-core", "typing-extensions"} <= names_of("compilers")
    assert not names_of("compilers") & {"numpy", "psutil", "ml-dtypes"}


@pytest.mark.slow
def test_the_runtime_is_compiled_by_modules_of_the_compilers_alone() -> None:
    program = "import sys, toolchain.runtime; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=100, check=True
    )
    found = metadata.packages_distributions()
    used = {
        each.lower().replace("_", "-") for module in done.stdout.split() for each in found.get(module, [])
    }
    assert used - {"edge-toolchain", "setuptools"} <= names_of("compilers")


def test_an_entry_says_who_needs_it() -> None:
    entries = {each.name: each for each in locked()}
    assert isinstance(entries["numpy"], Locked) and "apache-tvm" in entries["numpy"].parents
