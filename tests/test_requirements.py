"""What pyproject.toml asks for is used, and locked."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0]


def test_every_requirement_is_imported_by_the_package() -> None:
    modules: dict[str, set[str]] = {}
    for module, distributions in metadata.packages_distributions().items():
        for distribution in distributions:
            modules.setdefault(distribution.lower().replace("_", "-"), set()).add(module)
    code = "\n".join(file.read_text() for file in (ROOT / "toolchain").rglob("*.py"))
    # In quotes: ziglang is run; MetaSchedule imports xgboost, and doctor asks for it.
    used = set(re.findall(r"(?:^\s*(?:import|from) |[\"'])(\w+)", code, re.MULTILINE))
    wanted = {name(line) for line in PROJECT["dependencies"]}
    assert [each for each in sorted(wanted) if not modules[each] & used] == []


def test_every_requirement_is_locked() -> None:
    files = ("requirements.lock", "docker/cuda/requirements.lock")
    text = "".join((ROOT / file).read_text() for file in files)
    locked = set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE))
    optional = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    assert {name(line) for line in [*PROJECT["dependencies"], *optional]} <= locked
