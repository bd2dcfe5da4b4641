"""The causes that edge-rt sends with errors, and those that the rows of kinds explain, are the same words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolchain.devices.table import OWN
from toolchain.runtime.fingerprint import NATIVE
from toolchain.tuning.plans.answers import failure_of

SOURCES = NATIVE / "src"
# The words of a kind stand in one block of constants, under this line.
_CONSTANT = r"constexpr const char\* \w+ = \"[^\"]*\";\n"
BLOCK = re.compile(rf"// Causes of errors \(cause\.h\)[^\n]*\n((?:{_CONSTANT})+)")


def sources(kind: str) -> list[Path]:
    """Return the C++ files of a kind of device."""
    return sorted(path for path in (SOURCES / kind).rglob("*") if path.suffix in {".cc", ".h"})


def causes(kind: str) -> dict[str, str]:
    """Return the constants of a kind's causes, with their words."""
    found = [block for path in sources(kind) for block in BLOCK.findall(path.read_text())]
    assert len(found) <= 1, "all in one place"
    return dict(re.findall(r'\* (\w+) = "([^"]*)";', found[0])) if found else {}


@pytest.mark.parametrize("kind", OWN)
def test_a_row_explains_each_cause_that_its_kind_sends_and_no_other(kind: str) -> None:
    assert sorted(causes(kind).values()) == sorted(OWN[kind].failures)


@pytest.mark.parametrize("kind", OWN)
def test_each_cause_is_sent_by_its_constant(kind: str) -> None:
    code = "".join(path.read_text() for path in sources(kind) if path.suffix == ".cc")
    for name, word in causes(kind).items():
        assert re.search(rf"\b{name}\b", code), "or it is a word that nobody sends"
        assert f'"{word}"' not in code
        sent = RuntimeError(f"[cause {word}] driver: odd")
        assert failure_of(sent, "upload", OWN[kind]) == (OWN[kind].failures[word], "driver: odd")


def test_opencl_has_causes_and_nothing_else_throws_any() -> None:
    assert len(causes("opencl")) == len(set(causes("opencl").values())) >= 3
    throwing = [path for path in SOURCES.rglob("*.cc") if re.search(r"ThrowFor\(", path.read_text())]
    kinds = {path.relative_to(SOURCES).parts[0] for path in throwing} - {"cause.cc"}
    assert kinds == {kind for kind in OWN if OWN[kind].failures}
    literal = [path for path in throwing if re.search(r'ThrowFor\(\s*"', path.read_text())]
    assert literal == [], "a word beside the block of constants"
