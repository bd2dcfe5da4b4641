"""A wrong library fails: faults of every kind, in networks of every kind, by host and board alike."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.field.program import Checks
from tests.planted.faults import KINDS, ZEROED, Fault
from tests.planted.networks import NETWORKS
from tests.planted.page import COLUMNS, PAGE, trials
from tests.planted.trial import Judge, Outputs
from toolchain.boards.inventory.lookup import find_board, find_target
from toolchain.building.build import build
from toolchain.bundles.read import read_bundle
from toolchain.bundles.write import write_bundle
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.verify import verify_bundle
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.releases.terms import parts_per_billion

pytestmark = pytest.mark.slow

ALWAYS = (*(name for name in NETWORKS if name.startswith("detector")), "espcn", "lstm", "gru")
COMPILED = (("detector in pixels", ZEROED), ("detector with softmax", "an index off by one"))
ROW = re.compile(r"^\| (?P<name>[^|]+?) \| " + r" \| ".join(r"(\d+)" for _ in COLUMNS) + r" \|$", re.M)


@pytest.mark.parametrize(
    "name",
    [*ALWAYS, *(pytest.param(name, marks=pytest.mark.full) for name in NETWORKS if name not in ALWAYS)],
)
def test_every_fault_that_moves_a_part_is_caught(name: str) -> None:
    results = trials(name)
    assert len(results) >= 26
    missed = [each.fault for each in results if each.moved and not each.caught]
    assert not missed, [(fault.kind, fault.place) for fault in missed]
    assert sum(each.moved for each in results) > len(results) / 3 or NETWORKS[name].kind == "quantised"


def as_on_a_board(checks: Checks, judge: Judge, outputs: Outputs, folder: Path) -> bool:
    """Return whether outputs pass by edge-rt's own comparison."""
    answers = []
    for deviation in judge.compare(outputs).outputs:
        allowed = judge.tolerances[deviation.name]
        for letter, array in (("y", outputs[deviation.name]), ("r", judge.outputs[deviation.name])):
            np.save(folder / f"{letter}.npy", array)
        parts = [word for axis, ends in sorted(allowed.ends.items()) for word in (axis, len(ends), *ends)]
        answers.append(
            checks.ask(
                "compare",
                deviation.compared_as,
                parts_per_billion(allowed.number),
                "" if allowed.step is None else repr(allowed.step),
                "" if allowed.values is None else allowed.values,
                str(folder / "y.npy"),
                str(folder / "r.npy"),
                *parts,
            )["passed"]
        )
    return all(answers)


@pytest.mark.parametrize("name", ["detector in pixels", "detector with softmax", "lstm"])
def test_a_board_passes_and_fails_what_the_host_does(name: str, checks: Checks, tmp_path: Path) -> None:
    judge = Judge(NETWORKS[name], tmp_path)
    assert as_on_a_board(checks, judge, judge.outputs, tmp_path)
    for fault in judge.faults():
        outputs = judge.computed(fault)
        assert as_on_a_board(checks, judge, outputs, tmp_path) == judge.compare(outputs).passed, fault.place


def compiled(judge: Judge, fault: Fault | None, folder: Path) -> Path:
    """Compile the network for this host, with a fault or as it is."""
    folder.mkdir()
    onnx.save(judge.model.onnx if fault is None else fault.model, folder / "network.onnx")
    model = load_model(str(folder / "network.onnx"), ModelOptions())
    return build(model, find_target("local"), None, folder).bundle


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *COMPILED,
        *(pytest.param(name, None, marks=pytest.mark.full) for name in NETWORKS),
    ],
)
def test_a_library_with_the_fault_inside_fails(name: str, kind: str | None, tmp_path: Path) -> None:
    judge = Judge(NETWORKS[name], tmp_path)
    honest = read_bundle(compiled(judge, None, tmp_path / "honest"))
    board = find_board("local")
    assert verify_bundle(honest, OnBoard(board)).passed
    chosen = {
        fault.kind: fault
        for fault in judge.faults()
        if kind in (None, fault.kind) and judge.trial(fault).moved and fault.kind in (kind or ZEROED, *KINDS)
    }
    assert chosen, "no fault moves a part: this network shows nothing"
    for number, fault in enumerate(list(chosen.values())[-3:]):
        wrong = read_bundle(compiled(judge, fault, tmp_path / f"wrong{number}")).library
        mixed = tmp_path / f"mixed{number}.bundle"
        write_bundle(mixed, honest.manifest, wrong, honest.sample, honest.expected)
        assert not verify_bundle(read_bundle(mixed), OnBoard(board)).passed, (fault.kind, fault.place)


def test_the_page_has_every_network_and_kind_and_none_was_missed() -> None:
    rows = {row["name"]: [*map(int, row.groups()[1:])] for row in ROW.finditer(PAGE.read_text())}
    wanted = [f"{name} ({network.kind})" for name, network in NETWORKS.items()]
    assert list(rows) == [*KINDS, ZEROED, "**all**", *wanted], "run `python -m tests.planted.page`"
    moved, caught, as_wholes = (COLUMNS.index(column) for column in ("moved", "caught", "as wholes"))
    assert all(numbers[caught] == numbers[moved] for numbers in rows.values())
    assert rows["**all**"][as_wholes] < rows["**all**"][caught]
