"""The algorithm of docs/howto/add-an-algorithm.md computes what numpy does, and is chosen as it says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backends.packed.computed import MACHINES, named
from tests.howto.page import ROOT, blocks, files_planted, run_block
from toolchain.backends.packed.algorithms import policy, table
from toolchain.backends.packed.algorithms.algorithm import Algorithm
from toolchain.backends.packed.backend import PackedNetwork
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.backends.table import backend_for
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.tasks.options import CodeOptions

PAGE = "add-an-algorithm.md"
pytestmark = pytest.mark.slow


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Algorithm[Any, Any], ...]]:
    """Add the page's algorithm; the table is as the page shows it, which is returned."""
    with files_planted(PAGE, tmp_path) as planted:
        assert [name.rpartition(".")[2] for name in planted] == ["pointwise", "algorithm"]
        (text,) = [block for block in blocks(PAGE) if "ALGORITHMS: " in block]
        said = run_block(text, **vars(table))["ALGORITHMS"]
        for place in (table, policy):
            monkeypatch.setattr(place, "ALGORITHMS", said)
        monkeypatch.setattr(table, "_BY_NAME", {each.name: each for each in said})
        yield said


TODAY = table.ALGORITHMS


def test_the_page_shows_the_table_of_today(line: tuple[Algorithm[Any, Any], ...]) -> None:
    assert [each.name for each in line if each.name != "pointwise"] == [each.name for each in TODAY]


@pytest.mark.usefixtures("line")
@pytest.mark.parametrize("machine", MACHINES, ids=named)
def test_the_pages_test_passes(machine: Machine) -> None:
    run_block(blocks(PAGE)[-1])["test_choices_compute_what_numpy_does"](machine)


@pytest.mark.usefixtures("line")
def test_it_is_chosen_as_often_as_the_page_says() -> None:
    backend = backend_for(load_profile("rk3399"), CodeOptions())
    with backend.lower(load_model("zoo:squeezenet_v1.1", ModelOptions()), backend.target()) as network:
        assert isinstance(network, PackedNetwork)
        rules = rewrite(network.fused, network.choices).rules
        made = Counter(rules[task.name] for task in network.tasks).most_common()
    printed = re.search(r"prints `code: (.*), …`", (ROOT / "docs" / "howto" / PAGE).read_text())
    assert printed and "pointwise" in printed[1]
    assert ", ".join(f"{number} {rule}" for rule, number in made).startswith(printed[1])
