"""The distributions in requirements.lock: versions, what needs each, and who needs it of ours.

    python3 -m tools.distribution.locked compilers|demo|all

prints the lines of requirements.lock that pip installs for a set; tools/venv.sh asks, before anything is
installed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tools.distribution.tree import ROOT

LOCKS = (ROOT / "requirements.lock", ROOT / "docker" / "cuda" / "requirements.lock")
_PROJECT = "edge-toolchain"
# What compiles edge-rt, and the libraries that toolchain.runtime imports.
_COMPILERS = {
    *("apache-tvm", "apache-tvm-ffi", "cmake", "ninja", "ziglang"),
    *("filelock", "platformdirs", "pydantic", "pyelftools"),
}
_INSTALLERS = ("editables", "hatchling")  # they put this checkout into .venv


@dataclass(frozen=True)
class Locked:
    """An entry of a lock.

    Attributes
    ----------
    marker
        For which Pythons and systems it is; empty for all.
    parents
        Names of the distributions that need it.
    """

    name: str
    version: str
    marker: str
    parents: frozenset[str]


def locked(files: Iterable[Path] = LOCKS) -> list[Locked]:
    """Return the entries of lock files."""
    found = []
    for file in files:
        for block in _blocks(file):
            head = re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)\s*(?:;\s*([^\\\n]+?))?\s*\\?\n", block)
            if head:
                words = re.findall(r"#\s+(?:via\s+)?([A-Za-z0-9][\w.-]*)", block)
                parents = frozenset(normal(word) for word in words) - {"via"}
                found.append(Locked(normal(head[1]), head[2], head[3] or "", parents))
    return found


def lines_of(wanted: str) -> str:
    """Return the lines of requirements.lock for a set: `compilers` of edge-rt, `demo`, or `all`.

    `compilers` leaves out what TVM needs where networks are compiled: only its sources are read. `demo` is
    what users of a wheel get, and what installs a checkout.
    """
    file = LOCKS[0]
    if wanted == "all":
        return file.read_text()
    entries = locked([file])
    if wanted == "compilers":
        tvm = {"apache-tvm", "apache-tvm-ffi"}
        names = with_needs(_COMPILERS, [replace(each, parents=each.parents - tvm) for each in entries])
    else:
        names = with_needs({*asked_for()[""], *_COMPILERS, *_INSTALLERS}, entries)
    return "".join(f"{block.rstrip()}\n" for block in _blocks(file) if normal(block.split("==")[0]) in names)


def _blocks(file: Path) -> list[str]:
    return re.split(r"\n(?=[A-Za-z0-9])", file.read_text())


def normal(name: str) -> str:
    """Return a distribution's name in the one form that registries compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for() -> dict[str, set[str]]:
    """Return names of what pyproject.toml asks for, by extra; what everybody gets has an empty name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: {normal(re.split(r"[^\w.-]", line)[0]) for line in of} for extra, of in lines.items()}


def with_needs(names: Iterable[str], entries: Iterable[Locked]) -> set[str]:
    """Return distributions together with all that they need."""
    found, known = set(names), list(entries)
    while more := {each.name for each in known if each.name not in found and each.parents & found}:
        found |= more
    return found


if __name__ == "__main__":
    print(lines_of(sys.argv[1]), end="")
