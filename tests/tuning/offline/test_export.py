"""What is exported: candidates that the store does not know, each file once, and no more than fits."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from tests.tuning.offline.conftest import MIB, Offline
from toolchain.errors import UsageError
from toolchain.records.store import RecordStore
from toolchain.tuning.offline.export import Exported
from toolchain.tuning.plans.plan import read_plan

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]


def test_the_folder_holds_all_that_a_station_needs(exported: tuple[Path, Exported]) -> None:
    folder, said = exported
    assert {path.name for path in folder.iterdir()} == {"candidates.json", "edge-rt", "members", "plan"}
    assert said.tasks == 2 and said.candidates == 2 + 3 and said.checked == said.candidates
    assert (said.refused, said.left_out) == (0, ())
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert said.bytes == sum(path.stat().st_size for path in files)
    plan = read_plan(folder)
    assert {path.name: path.stat().st_size for path in (folder / "members").iterdir()} == plan.members
    for path in (folder / "members").iterdir():
        assert sha256(path.read_bytes()).hexdigest() == path.name
    about = json.loads((folder / "candidates.json").read_text())
    assert [each["digest"] for each in about["candidates"]] == [*plan.blocks]
    assert [each["stage"] for each in about["candidates"]] == ["default"] * 2 + ["search"] * 3


def test_operands_that_are_equal_are_there_once(exported: tuple[Path, Exported]) -> None:
    plan = read_plan(exported[0])
    named = [
        line.split(" ")[1] for lines in plan.blocks.values() for line in lines if line.startswith("stored")
    ]
    assert len(named) > len(set(named))


def test_weights_and_inputs_are_drawn_by_the_station(
    exported: tuple[Path, Exported], offline: Offline
) -> None:
    folder, plan = exported[0], read_plan(exported[0])
    drawn = {line for lines in plan.blocks.values() for line in lines if line.startswith("drawn")}
    shapes = {tuple(map(int, line.split(" ")[2].split("x"))) for line in drawn}
    weights = [tuple(each.dims) for each in offline.model.onnx.graph.initializer if len(each.dims) > 1]
    assert shapes & set(weights), "weights are among them"
    assert {len(line.split(" ")) for line in drawn} == {7}
    largest = max(
        plan.members[each] for each in plan.members if (folder / "members" / each).read_bytes()[:1] != b"\x7f"
    )
    assert largest < 64 << 10, "libraries apart, no large file is left"


def test_expected_values_lie_where_the_candidate_writes_them(exported: tuple[Path, Exported]) -> None:
    """What a layout leaves open is NaN, and nothing else is."""
    folder, plan = exported[0], read_plan(exported[0])
    outputs = [
        line.split(" ") for lines in plan.blocks.values() for line in lines if line.startswith("output")
    ]
    for _word, dtype, shape, digest, tolerance, halves in outputs:
        values = np.load(folder / "members" / digest)
        assert (values.dtype, dtype, tolerance, halves) == (np.float32, "float32", "0.001", "0")
        assert "x".join(map(str, values.shape)) == shape
        assert np.isfinite(values).any()


def test_the_same_command_writes_the_same_bytes(
    offline: Offline, exported: tuple[Path, Exported], tmp_path: Path
) -> None:
    offline.export(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(exported[0])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_measured_already_is_not_exported(offline: Offline, done: Path, tmp_path: Path) -> None:
    with RecordStore(tmp_path / "records.sqlite") as store:
        offline.load(done, store)
    said = offline.export(tmp_path / "next", store=RecordStore(tmp_path / "records.sqlite"))
    before, after = (
        {each["point"] for each in json.loads((folder / "candidates.json").read_text())["candidates"]}
        for folder in (done, tmp_path / "next")
    )
    assert said.candidates > 2 and len(before & after) == 2, "the defaults"


def test_what_does_not_fit_is_listed(
    offline: Offline, exported: tuple[Path, Exported], tmp_path: Path
) -> None:
    program = (exported[0] / "edge-rt").stat().st_size
    most = program + 44 * 1024
    said = offline.export(tmp_path / "small", most)
    assert 0 < said.candidates < 5 and said.bytes <= most
    assert len(said.left_out) == 5 - said.candidates
    assert all(
        "it does not fit" in each.reason or "the default of its task" in each.reason for each in said.left_out
    )
    with pytest.raises(UsageError, match="not even one candidate fits"):
        offline.export(tmp_path / "smaller", program + 24 * 1024)
    assert not (tmp_path / "smaller").exists()


def test_nothing_is_written_over(offline: Offline, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is there already"):
        offline.export(tmp_path, 48 * MIB)
