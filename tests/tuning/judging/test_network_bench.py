"""A network with certain points on a board: timed as a whole and by task, and checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.building.network import written
from tests.models.sequences import recogniser
from toolchain.backends.table import backend_for
from toolchain.boards.inventory.lookup import find_board
from toolchain.building.bundling import Compilation
from toolchain.errors import ToolchainError
from toolchain.files.scratch import scratch_folder
from toolchain.models.load import Model, load_model
from toolchain.models.multi_shape import load_shapes
from toolchain.models.options import ModelOptions, shape_options
from toolchain.records.sqlite import FILE_NAME
from toolchain.records.store import RecordStore
from toolchain.tasks.backend import Network
from toolchain.tasks.options import CodeOptions
from toolchain.tuning.judging.network_bench import BoardNetworkBench, Variant, prepare_network_bench

pytestmark = pytest.mark.slow


def said(_step: str) -> None:
    pass


@dataclass
class Here:
    """The network on the board `local`, untuned."""

    network: Network[Any]
    bench: BoardNetworkBench
    untuned: Variant


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    folder = tmp_path_factory.mktemp("bench")
    with benched(load_model(str(written(folder)), ModelOptions()), folder) as found:
        yield found


@contextmanager
def benched(model: Model, folder: Path) -> Iterator[Here]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOOLCHAIN_STATE_DIR", str(folder / "state"))
        patch.setattr("toolchain.tuning.judging.network_bench._SAMPLE_S", 0.02)
        board = find_board("local")
        backend = backend_for(board.profile, CodeOptions())
        target = backend.target()
        with (
            RecordStore(folder / FILE_NAME) as store,
            scratch_folder() as scratch,
            backend.lower(model, target) as network,
        ):
            tasks = list(network.tasks)
            compilation = Compilation(model, backend, board.build_for, target)
            bench = prepare_network_bench(compilation, network, board, store, tasks, scratch)
            yield Here(network, bench, bench.variant({}, said))


def test_every_task_has_its_share_of_the_time(here: Here) -> None:
    whole, by_task = here.bench.profile(here.untuned)
    assert by_task.keys() == {task.workload for task in here.network.tasks}
    assert whole > 0 and all(ms > 0 for ms in by_task.values())
    assert here.bench.time(here.untuned) > 0


def test_another_point_is_other_code_that_computes_the_same(here: Here) -> None:
    heaviest = max(here.network.tasks, key=lambda task: here.network.space(task).size or 0)
    space = here.network.space(heaviest)
    other = here.bench.variant({heaviest.workload: space.point(1)}, said)
    assert other.bundles[0].library != here.untuned.bundles[0].library
    assert here.bench.check(other) == here.bench.check(here.untuned) == ""
    assert heaviest.workload in here.bench.profile(other)[1]


def test_wrong_numbers_are_told(here: Here) -> None:
    (bundle,) = here.untuned.bundles
    wrong = replace(bundle, expected={name: value + 1 for name, value in bundle.expected.items()})
    assert "wrong numbers on board local" in here.bench.check(replace(here.untuned, bundles=[bundle, wrong]))


def test_a_library_that_does_not_load_is_an_error(here: Here) -> None:
    broken = replace(here.untuned.bundles[0], library=b"no library")
    with pytest.raises(ToolchainError):
        here.bench.profile(replace(here.untuned, bundles=[broken]))


def test_all_shapes_count(tmp_path: Path) -> None:
    source = recogniser(tmp_path / "recogniser.onnx")
    model = load_shapes(str(source), ModelOptions(**shape_options(None, ["x=1,3,16,{16,40}"])))
    with benched(model, tmp_path) as here:
        assert [len(here.untuned.bundles), len(here.network.tasks[0].calls)] == [2, 2]
        _whole, by_task = here.bench.profile(here.untuned)
        assert by_task.keys() == {task.workload for task in here.network.tasks}
        assert here.bench.check(here.untuned) == ""
