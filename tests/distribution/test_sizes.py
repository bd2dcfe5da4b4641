"""The table of sizes in docs/howto/install.md is of what is installed today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.distribution.locked import asked_for
from tools.distribution.sizes import mib
from tools.distribution.tree import ROOT

PAGE = (ROOT / "docs" / "howto" / "install.md").read_text()
TABLES = PAGE.partition("<!-- begin: sizes")[2].partition("<!-- end: sizes -->")[0]


def test_it_has_every_requirement_and_every_extra() -> None:
    asked = asked_for()
    missing = {name for name in asked.pop("") if not re.search(rf"[ |]{name}[ ,;.|]", TABLES)}
    assert not missing, "run python -m tools.distribution.sizes --write docs/howto/install.md"
    del asked["dev"]
    assert set(re.findall(r"^\| `(\w+)` \|", TABLES, re.MULTILINE)) == set(asked)
    described = PAGE.partition("## Extras")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", described, re.MULTILINE)) == set(asked)


def test_it_says_when_it_was_measured_and_what_it_sums_up_to() -> None:
    assert re.search(r"Measured on \d{4}-\d\d-\d\d with Python 3\.\d+", TABLES)
    total = int(re.search(r": (\d+) MiB in \d+ distributions", TABLES)[1])
    parts = [int(size) for size in re.findall(r"^\| [\w-]+ \| (\d+) \|", TABLES, re.MULTILINE)]
    rest = int(re.search(r"^(\d+) MiB more are in", TABLES, re.MULTILINE)[1])
    assert abs(total - sum(parts) - rest) <= len(parts), "each is rounded"


@pytest.mark.slow
def test_a_size_is_that_of_the_files() -> None:
    assert 0.2 < mib("click") < 3 and mib("ziglang") > 100 * mib("click")


def test_compiled_modules_do_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package, installed = tmp_path / "small", tmp_path / "small-1.0.dist-info"
    (package / "__pycache__").mkdir(parents=True)
    installed.mkdir()
    (package / "__init__.py").write_bytes(b"#" * 2**20)
    (package / "__pycache__" / "__init__.cpython-311.pyc").write_bytes(b"#" * 2**20)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: small\nVersion: 1.0\n")
    names = ("small/__init__.py", "small/__pycache__/__init__.cpython-311.pyc", "small/gone.py")
    (installed / "RECORD").write_text("".join(f"{name},,\n" for name in names))
    monkeypatch.syspath_prepend(tmp_path)
    assert mib("small") == 1
