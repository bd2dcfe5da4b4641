"""Builds variants of a network on this host and times them with edge-rt on a board, without the lab."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from toolchain.boards.board import Board
from toolchain.building.build import SAMPLE_SEED
from toolchain.building.bundling import Bundling, Compilation, bundling
from toolchain.building.decide import Decision, decide_beside, decide_task, points
from toolchain.bundles.read import Bundle
from toolchain.errors import CheckError
from toolchain.measuring.bench import BenchResult, bench_bundle
from toolchain.measuring.execution import Execution, OnBoard, Sampling
from toolchain.measuring.verify import verify_bundle
from toolchain.models.judging.reference import seeded_reference
from toolchain.records.store import RecordStore
from toolchain.tasks.backend import Network
from toolchain.tasks.task import Task

_SAMPLE_S = 0.5  # duration of the inferences for one time; at least one inference runs
_SLOW_WARMUP = 1  # warm-up inferences if one takes longer than `_SAMPLE_S`; drivers compile in the first
_WAIT_S = 300.0  # for others who measure on the board


@dataclass(frozen=True)
class Variant:
    """A network built with certain points.

    Attributes
    ----------
    bundles
        The bundle for each of the network's shapes.
    workloads
        Name of a function in a profile -> workload of its task.
    """

    bundles: Sequence[Bundle]
    workloads: Mapping[str, str]


class BoardNetworkBench:
    """Builds networks, and times them on one board; see `judge.NetworkBench`.

    Parameters
    ----------
    others
        Points of the tasks that are not tuned, by workload.
    folder
        Folder for the built variants.
    """

    def __init__(
        self, bundling: Bundling, network: Network[Any], board: Board, others: Mapping[str, Any], folder: Path
    ) -> None:
        self._bundling, self._network = bundling, network
        self._on_board, self._folder = OnBoard(board, wait=_WAIT_S), folder
        self._execution = Execution(threads=network.target.threads, cluster=network.target.cpu)
        self._others = others
        self._numbers = count()
        self._warmup: int | None = None

    def variant(self, points: Mapping[str, Any], step: Callable[[str], None]) -> Variant:
        """Compile and link the network with the given points, and check the library."""
        folder = self._folder / str(next(self._numbers))
        folder.mkdir()
        decisions: list[Decision[Any]] = [Decision(task) for task in self._network.tasks]
        made = self._bundling.make(self._network, {**self._others, **points}, decisions, folder, step)
        reference = self._bundling.expectations[0].reference
        library = made.code.read_bytes()
        bundle = Bundle(
            made.code,
            made.manifest,
            library,
            dict(reference.sample),
            reference.outputs,
            "",
            tuple((dict(sample), dict(outputs)) for sample, outputs in self._bundling.cases),
        )
        return Variant(bundle.each(), made.objects.workloads)

    def look(self, variant: Variant, limit_s: float | None) -> float:
        """Time one inference of each shape after one warm-up inference; return the seconds of all."""
        total = 0.0
        wait_s = _WAIT_S if limit_s is None else min(_WAIT_S, limit_s)
        on_board = OnBoard(self._on_board.board, timeout=limit_s, wait=wait_s)
        sampling = Sampling(repeat=1, warmup=_SLOW_WARMUP)
        for bundle in variant.bundles:
            timed = bench_bundle(bundle, on_board, sampling, self._execution)
            total += min(timed.times_ms) / 1e3
        if total > _SAMPLE_S:
            self._warmup = _SLOW_WARMUP
        return total

    def profile(self, variant: Variant) -> tuple[float, Mapping[str, float]]:
        """Time the network, then its functions; return both in ms, for an inference of each shape."""
        by_task: dict[str, float] = {}
        total = 0.0
        for bundle in variant.bundles:
            timed = self._bench(bundle, profile=True)
            total += median(timed.times_ms)
            for operator in timed.operators or []:
                workload = variant.workloads.get(operator["name"])
                if workload is not None:
                    by_task[workload] = by_task.get(workload, 0.0) + operator["ms"]
        return total, by_task

    def time(self, variant: Variant) -> float:
        """Time an inference of each shape; return the sum of the medians in ms."""
        return sum(median(self._bench(bundle, profile=False).times_ms) for bundle in variant.bundles)

    def check(self, variant: Variant) -> str:
        """Compare the network's outputs with onnxruntime's; return the error message, empty if they agree."""
        try:
            for bundle in variant.bundles:
                verify_bundle(bundle, self._on_board, self._execution).check()
        except CheckError as error:
            return error.message
        return ""

    def _bench(self, bundle: Bundle, *, profile: bool) -> BenchResult:
        sampling = Sampling(time_s=_SAMPLE_S, profile=profile, warmup=self._warmup)
        return bench_bundle(bundle, self._on_board, sampling, self._execution)


def prepare_network_bench(
    compilation: Compilation,
    network: Network[Any],
    board: Board,
    store: RecordStore,
    tasks: Sequence[Task],
    folder: Path,
) -> BoardNetworkBench:
    """Compute a sample's outputs with onnxruntime, choose points for the other tasks, and return the bench.

    Parameters
    ----------
    tasks
        The tasks that are tuned; all others get the points that a build chooses from the records.
    folder
        Folder for the built variants.

    Raises
    ------
    UsageError
        The network's outputs are not finite for any sample.
    """
    references = [seeded_reference(shape, SAMPLE_SEED) for shape in compilation.model.shapes]
    tuned = {task.workload for task in tasks}
    others = [task for task in network.tasks if task.workload not in tuned]
    decided = [decide_task(network, task, store, compilation.target, board.record_class) for task in others]
    beside = decide_beside(network, store, board.record_class)
    others_points = points([*decided, *beside])
    return BoardNetworkBench(bundling(compilation, references), network, board, others_points, folder)
