"""docs/test-all.md is a whole run, and knows every network and every board class."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.pairs import MACHINES, PAIRS

PAGE = Path(__file__).parent.parent / "docs" / "test-all.md"
ROW = re.compile(r"^\| `(?P<name>[^`]+)` \| (?P<passed>\d+) \| (?P<failed>\d+) \|", re.MULTILINE)


@pytest.mark.parametrize(("name", "class_name"), PAIRS)
def test_the_page_has_each_network_on_each_class(name: str, class_name: str) -> None:
    test = "tests/e2e/test_networks.py::test_it_is_built_for_the_class_and_verified"
    rows = {row["name"]: (row["passed"], row["failed"]) for row in ROW.finditer(PAGE.read_text())}
    found = rows.get(f"{test}[{name}-{class_name}]")
    assert found == ("1", "0"), f"{PAGE.name} is older than {name} or {class_name}: run `make test-all`"


def test_every_class_that_runs_here_is_tried() -> None:
    assert {class_name for _, class_name in PAIRS} == set(MACHINES)


def test_the_page_is_of_a_good_run() -> None:
    summary = re.search(
        r"^(?P<when>.+ UTC), commit (?P<commit>\w+): .*\((?P<verdict>.+)\)\.$", PAGE.read_text(), re.M
    )
    assert summary, f"{PAGE.name} does not say of which run it is, or the run had uncommitted changes"
    assert summary["verdict"] == "good"
