"""A backend that nothing of the package knows of: numpy on this host as a device, and three knobs.

Products of matrices are computed tile by tile. Candidates run as numpy, in this process; what is built is
TensorIR in the same tiles, which needs nothing of the program on the board.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import s_tir

from toolchain.backends.table import BackendRow
from toolchain.errors import ToolchainError, UsageError
from toolchain.lowering.fused import FusedNetwork
from toolchain.lowering.schedules.rows import default_schedule
from toolchain.profiles import Profile
from toolchain.records.distill import BuildVariant
from toolchain.records.store import Usable, anything
from toolchain.targets.target import BoardTarget, target_for
from toolchain.tasks.backend import Objects, OffBoards, Progress
from toolchain.tasks.candidate import Candidate, Case, Entry, Parameter
from toolchain.tasks.evaluator import BuiltCandidate, Evaluator
from toolchain.tasks.options import CodeOptions
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import FiniteSpace, Result
from toolchain.tuning.boards.cases import wrong


@dataclass(frozen=True)
class Tiles:
    """Rows and columns of a tile, and which of both goes first."""

    rows: int
    columns: int
    by_rows: bool


POINTS = [Tiles(*knobs) for knobs in product((8, 4, 2), (64, 16, 4), (True, False))]


@dataclass(frozen=True)
class Product(Task):
    """A product of matrices; its definition is a line of text."""

    @property
    def definition(self) -> str:
        return f"product {self.shapes}"


class ToySpace(FiniteSpace[Tiles]):
    """Three knobs."""

    kinds: tuple[str, ...] = ("toy",)
    excluded = ""
    points: Sequence[Tiles] = POINTS

    def __init__(self, task: Task, most_rows: int = 8) -> None:
        self.task = task
        self.points = [point for point in POINTS if point.rows <= most_rows]
        self.usable: Usable = anything
        self.allowed: Usable = anything

    def legal(self, point: Tiles) -> bool:
        return point in self.points

    def decisions(self, point: Tiles) -> Mapping[str, object]:
        return asdict(point)

    def features(self, point: Tiles) -> Sequence[float]:
        return [float(knob) for knob in astuple(point)]

    def foreign_features(self, entry: Entry, definition: str) -> Sequence[float]:
        return self.features(self.read(entry, definition))

    def adapted(self, entry: Entry, definition: str) -> Tiles:
        return self.read(entry, definition)

    def rule(self, point: Tiles) -> str:
        return f"{point.rows}x{point.columns}"

    def entry(self, point: Tiles) -> Entry:
        return Entry("toy", str(astuple(point)), f"toy {astuple(point)}")

    def read(self, entry: Entry, definition: str) -> Tiles:
        point = next((each for each in POINTS if self.entry(each) == entry), None)
        if point is None or definition != self.task.definition:
            raise ToolchainError(f"no tiles of {self.task.name}: {entry.payload}")
        return point

    def candidate(self, point: Tiles) -> Candidate:
        return Candidate(self.entry(point), NumpyCode(point), (), 1)


@dataclass(frozen=True)
class NumpyProduct:
    """What a product of matrices is, in one operation; see `tasks.reference.TaskReference`."""

    parameters: tuple[Parameter, ...]

    def outputs(self, draws: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        return [[a @ b] for a, b in draws]


@dataclass(frozen=True)
class NumpyCode:
    """What a candidate computes."""

    tiles: Tiles

    def objects(self, symbol: str) -> tuple[bytes, ...]:
        raise ToolchainError(f"numpy compiles no {symbol}")

    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        out = np.empty((a.shape[0], b.shape[1]), np.float32)
        rows, columns = range(0, len(a), self.tiles.rows), range(0, b.shape[1], self.tiles.columns)
        pairs = product(rows, columns) if self.tiles.by_rows else ((i, j) for j, i in product(columns, rows))
        for i, j in pairs:
            tile = np.s_[i : i + self.tiles.rows, j : j + self.tiles.columns]
            out[tile] = a[tile[0]] @ b[:, tile[1]]
        return out


class InProcess:
    """Builds nothing and runs candidates here."""

    lanes = 1
    names: tuple[str, ...] = ()
    in_use_s: Mapping[str, float] = {}
    power_cycles: Mapping[str, int] = {}

    def build(self, candidates: Sequence[Candidate]) -> list[BuiltCandidate]:
        return [BuiltCandidate(candidate) for candidate in candidates]

    def __init__(self) -> None:
        self.cases: dict[str, Sequence[Case]] = {}

    def expect(self, task: Task, cases: Sequence[Case]) -> None:
        self.cases[task.workload] = cases

    def run(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:
        return [self._run(each.candidate.code, self.cases[task.workload][:1]) for each in built]

    def check(self, task: Task, built: Sequence[BuiltCandidate]) -> list[Result]:
        return [self._run(each.candidate.code, self.cases[task.workload]) for each in built]

    def probe(self, task: Task, built: BuiltCandidate) -> list[Result]:
        return self.run(task, [built])

    def compare(self, task: Task, built: Sequence[BuiltCandidate], rounds: int) -> list[list[Result]]:
        return [self.run(task, built) for _ in range(rounds)]

    def revive(self, _board: str) -> bool:
        return False

    def _run(self, code: object, cases: Sequence[Case]) -> Result:
        assert isinstance(code, NumpyCode)
        took = []
        for case in cases:
            arguments = case.arguments()
            begin = time.perf_counter()
            output = code(arguments[0], arguments[1])
            took.append((time.perf_counter() - begin) * 1e3)
            if problem := wrong([output], case.expected() or []):
                return Result(failure="wrong result", message=problem)
        return Result((took[0],))


@contextmanager
def in_process(_target: BoardTarget) -> Iterator[Evaluator]:
    evaluator = InProcess()
    yield Evaluator(evaluator, evaluator)


class ToyNetwork(FusedNetwork):
    """Its tasks are products of matrices; all else is computed by rows."""

    tuner = "gridsearch"
    tuners: Mapping[str, Any] = {}

    def __init__(self, model: object, target: BoardTarget, most_rows: int, *, compiles: bool) -> None:
        super().__init__(model, target, "NCHW", "toy", compiles=compiles)
        self.most_rows = most_rows
        self.functions = {task.name: task.functions for task in self.tasks}
        self.products = [
            Product(_hash(task.shapes), task.name, task.weight, task.flops, task.shapes)
            for task in self.tasks
            if "matmul" in task.name
        ]
        self.tasks = self.products  # type: ignore[assignment] # its space takes these

    def space(self, task: Task) -> ToySpace:
        return ToySpace(task, self.most_rows)

    def reference(self, task: Task) -> NumpyProduct:
        return NumpyProduct(tuple(Parameter(shape, "float32") for shape in task.shapes[:2]))

    def probe(self) -> None:
        return None  # nothing is uploaded

    def compile(self, points: Mapping[str, Tiles], folder: Path, progress: Progress) -> Objects:
        scheduled = {
            variable: default_schedule(func) if isinstance(func, tvm.tirx.PrimFunc) else func
            for variable, func in self.fused.functions.items()
        }
        rules = {}
        for task in self.products:
            tiles = points.get(task.workload, POINTS[0])
            rules[task.name] = ToySpace(task).rule(tiles)
            for name in self.functions[task.name]:
                scheduled[self.fused.get_global_var(name)] = tiled(self.fused[name], tiles)
        module = tvm.IRModule(scheduled, attrs=self.fused.attrs)
        return Objects(self.export(module, self.kernels(progress), folder, progress), rules)


def tiled(func: tvm.tirx.PrimFunc, tiles: Tiles) -> tvm.tirx.PrimFunc:
    """Return a product of matrices, tile by tile."""
    schedule = s_tir.Schedule(tvm.IRModule({"main": func}))
    i, j, k = schedule.get_loops(schedule.get_sblock("matmul"))
    rows, row = schedule.split(i, [None, tiles.rows])
    columns, column = schedule.split(j, [None, tiles.columns])
    outer = (rows, columns) if tiles.by_rows else (columns, rows)
    schedule.reorder(*outer, row, k, column)
    return schedule.mod["main"]


class Toy:
    """See `tasks.backend.Backend`."""

    name, layout, dtype, runner = "toy", "plain", "float32", "numpy"
    runners: Mapping[str, Any] = {"numpy": OffBoards(in_process)}

    def __init__(self, profile: Profile, options: CodeOptions) -> None:
        self.profile, self.options = profile, options
        self.most_rows = profile.device("toy").own["most_rows"]
        if self.most_rows not in (2, 4, 8):
            raise UsageError(
                f"board class {profile.name}: most_rows of its toy is {self.most_rows!r}", "use 2, 4 or 8"
            )

    def target(
        self, cluster: str | None = None, threads: int | None = None, *, integers: bool = False
    ) -> BoardTarget:
        del integers
        return replace(target_for(self.profile, cluster, threads), device="toy:numpy")

    def lower(self, model: object, target: BoardTarget, *, compiles: bool = False) -> ToyNetwork:
        return ToyNetwork(model, target, self.most_rows, compiles=compiles)


OFFERS = (BackendRow(("toy",), ("plain",), Toy, (BuildVariant(("toy",), anything, "--device toy"),)),)


def _hash(shapes: object) -> str:
    return hashlib.sha256(str(shapes).encode()).hexdigest()[:16]
