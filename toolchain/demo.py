"""Runs all steps for one network, as a user would: load, tune, build, upload, verify, bench, report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolchain.api.bundles import bench_shapes, verify_shapes
from toolchain.api.records import open_records
from toolchain.backends.table import backend_for
from toolchain.boards.board import Board
from toolchain.boards.emulation import emulated, stored
from toolchain.boards.inventory.lookup import LOCAL, find_board, find_target
from toolchain.building.build import BuildResult, build
from toolchain.building.options import BuildOptions
from toolchain.bundles.read import read_bundle
from toolchain.errors import ToolchainError, UsageError
from toolchain.files.atomic import check_writable
from toolchain.measuring.arrays import read_inputs
from toolchain.measuring.bench import BenchResult
from toolchain.measuring.execution import OnBoard, Sampling
from toolchain.measuring.verify import VerifyResult
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.quantities import counted
from toolchain.reports.demo import DemoReport, write_demo_report
from toolchain.tasks.options import CodeOptions
from toolchain.tuning.events import Event, Listener, Trial
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.result import TuneResult
from toolchain.tuning.run.tune import tune

CLASS = "rk3399"
TRIALS, HEAVIEST = 32, 4
EMULATED_TRIALS, EMULATED_HEAVIEST = 4, 1
"""Times of an emulated board decide nothing: there a search only shows how it goes."""
BENCH_S, EMULATED_BENCH_S = 10.0, 1.0
WAIT_S = 120.0  # for a board that another process measures on
Note = Callable[[str], None]


@dataclass(frozen=True)
class DemoResult:
    """The results of all steps of a demo."""

    board: Board
    model: Model
    tuned: TuneResult
    built: BuildResult
    verified: VerifyResult
    timed: BenchResult
    report: Path

    def to_json(self) -> dict[str, Any]:
        """Return the result as `toolchain demo --json` prints it."""
        tuned, built = self.tuned.to_json(), self.built.to_json()
        return {
            "board": self.board.name,
            "machine": self.timed.machine,
            "transport": self.board.transport.kind,
            "model": self.model.source,
            "trials": tuned["trials"],
            "tasks": built["tasks"],
            "quantising": built["quantising"],
            "tune": tuned,
            "verify": self.verified.to_json(),
            "bench": self.timed.to_json(),
            "bundle": built["bundle"],
            "report": str(self.report),
        }


@dataclass(frozen=True)
class DemoRequest:
    """The network of a demo, its board, and the limits of tuning.

    Attributes
    ----------
    inputs
        `NAME=FILE.npy` for the sample that is verified and timed; empty for a seeded sample.
    board
        Name of the board. None starts an emulated rk3399 and leaves it running: a container over SSH, else a
        process; if neither is possible, `local` is used.
    output
        Folder for bundle, library and report.
    trials
        Number of candidates to measure; None: as many as `demo_options` gives the board.
    timeout_s
        Deadline for one candidate on the board; None: computed.
    """

    model: str
    options: ModelOptions
    code: CodeOptions
    inputs: tuple[str, ...]
    board: str | None
    output: Path
    trials: int | None = None
    timeout_s: float | None = None


def run_demo(request: DemoRequest, note: Note, listener: Listener) -> DemoResult:
    """Tune, build, verify and time one network, and write a report.

    Parameters
    ----------
    note, listener
        Called with a message for each step, and with each event of tuning.

    Raises
    ------
    ToolchainError
        A step fails; CheckError if the numerical results are wrong.
    """
    out, code, trials = request.output, request.code, request.trials
    model = load_model(request.model, request.options)
    sample = read_inputs(request.inputs, model.inputs) if request.inputs else None
    build_options = BuildOptions(code=code, sample=sample, sample_option="--input")
    check_writable(out / "report.html")
    board = find_board(request.board) if request.board else _start_board(note)
    tuning = demo_options(board, trials, request.timeout_s)
    measured: list[dict[str, Any]] = []
    with open_records(note) as store:
        if board.name == LOCAL and not request.board:
            built = build(model, find_target(CLASS), store, out, build_options)
            note(f"built and checked {built.library} for {CLASS}, which this machine cannot run")
        note(f"tuning for {board.name}")
        if trials is None and board.emulated:
            note(
                f"{_count(tuning)}, to show how it goes: an emulated board's times say nothing of silicon. "
                f"A board of yours gets {_count(demo_options(None))} (demo --board NAME); more here: --trials"
            )
        backend = backend_for(board.profile, code)
        tuned = tune(model, backend, [board], store, tuning, _record_trials(measured, listener))
        note(f"building for {board.name}")
        built = build(model, find_target(board.name), store, out, build_options)
    bundle = read_bundle(built.bundle)
    note(f"verifying on {board.name} against onnxruntime")
    on_board = OnBoard(board, wait=WAIT_S)
    [verified] = verify_shapes(bundle, (), on_board)
    verified.check()
    note(f"timing on {board.name}")
    seconds = EMULATED_BENCH_S if board.emulated else BENCH_S
    sampling = Sampling(time_s=seconds, profile=not board.emulated)
    [timed] = bench_shapes(bundle, (), on_board, sampling)
    report = out.absolute() / f"{model.name}-{board.name}.html"
    result = DemoResult(board, model, tuned, built, verified, timed, report)
    write_demo_report(report, _describe(result, measured))
    return result


def demo_options(
    board: Board | None, trials: int | None = None, timeout_s: float | None = None
) -> TuneOptions:
    """Return options for a short tuning run of the heaviest tasks.

    Parameters
    ----------
    board
        The board to tune on; None: any real one.
    trials
        Number of candidates; None: 32 of four tasks in some minutes, on an emulated board 4 of one task.
    """
    short = trials is None and board is not None and board.emulated
    return TuneOptions(
        trials=trials or (EMULATED_TRIALS if short else TRIALS),
        heaviest=EMULATED_HEAVIEST if short else HEAVIEST,
        repeat=2,
        timeout_s=timeout_s,
    )


def _count(tuning: TuneOptions) -> str:
    tasks = "the heaviest task" if tuning.heaviest == 1 else f"the {tuning.heaviest} heaviest tasks"
    return f"{counted(tuning.trials, 'candidate')} of {tasks}"


def _start_board(note: Note) -> Board:
    """Start an emulated board, unless it runs: a container, else a process; if both fail, return `local`."""
    name = emulated.default_name(CLASS)
    if name in stored.names() and emulated.condition(name) == "ready":
        note(f"board {name} is running already")
        return emulated.load(name)
    note(f"board {name}: starting")
    told = ""
    for kind in ("auto", "process"):
        try:
            return emulated.start(CLASS, kind=kind, progress=note)
        except UsageError:
            raise  # its name belongs to another board, which the user must decide about
        except ToolchainError as error:
            if str(error) != told:
                note(f"{error}: continuing without it")
            told = str(error)
    return find_board(LOCAL)


def _record_trials(trials: list[dict[str, Any]], listener: Listener) -> Listener:
    """Return a listener that stores each trial of the search in `trials` and forwards all events."""

    def record(event: Event) -> None:
        if isinstance(event, Trial) and event.stage == "search":
            trials.append(
                {"task": event.task.id, "trial": len(trials), "ms": event.ms, "failure": event.failure}
            )
        listener(event)

    return record


def _describe(result: DemoResult, trials: list[dict[str, Any]]) -> DemoReport:
    bundle = read_bundle(result.built.bundle).manifest
    return DemoReport(
        board=result.board.name,
        machine=result.timed.machine,
        emulated=result.board.emulated,
        transport=result.board.transport.kind,
        model=result.model.source,
        build=result.built.to_json(),
        tune=result.tuned.to_json(),
        trials=trials,
        verify=result.verified.to_json(),
        bench={**result.timed.to_json(), "times_ms": result.timed.times_ms},
        versions={"toolchain": bundle.tool_version, "tvm": bundle.tvm, "tvm_ffi": bundle.tvm_ffi},
    )
