"""Loads networks, lists their tasks, tunes and builds them."""

# ruff: noqa: E402 - TVM is imported as `import_tvm` does it, before anything here imports it

from __future__ import annotations

from toolchain.imports.tvm_import import import_tvm

import_tvm()

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from toolchain.api.rates import with_chosen_rates, with_chosen_rates_of_all
from toolchain.api.records import open_records
from toolchain.backends.table import backend_for, measured_on_boards
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import find_measured, find_target
from toolchain.building import build as building
from toolchain.building.build import BuildResult
from toolchain.building.options import BuildOptions
from toolchain.errors import UsageError
from toolchain.models.load import Model
from toolchain.models.multi_shape import load_shapes
from toolchain.models.options import QUANTIZERS, ModelOptions
from toolchain.targets.build_for import BuildFor
from toolchain.tasks.options import CodeOptions
from toolchain.tasks.task import Task
from toolchain.tuning.events import Event, Notice
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.result import TuneResult
from toolchain.tuning.run import tune as tuning


def ignore(_news: Any) -> None:
    """Do nothing; the callback of callers that want no progress."""


def load(source: str | Path, options: ModelOptions | None = None) -> Model:
    """Load a network.

    Parameters
    ----------
    source
        `zoo:NAME`, or an `.onnx` or `.tflite` file.
    options
        Shapes, constants, cuts and quantising; default: the network as it is.

    Raises
    ------
    UsageError
        The source cannot be read or compiled, or an option does not fit it.
    """
    return load_shapes(str(source), options or ModelOptions())


def list_tasks(
    model: Model,
    board: str | Board | BuildFor = "local",
    code: CodeOptions | None = None,
    *,
    cluster: str | None = None,
) -> list[Task]:
    """Return the tunable tasks of a network, the heaviest first.

    Parameters
    ----------
    board
        A board or a board class.
    cluster
        CPU of one of its clusters, such as `cortex-a72`; default: the first.

    Raises
    ------
    UsageError
        There is no such board, or the options do not fit it or the network.
    """
    code = _code_for(model, code)
    backend = backend_for(_target_of(board).profile, code)
    with backend.lower(model, backend.target(cluster, integers=model.integral)) as network:
        return list(network.tasks)


def tune(
    model: Model,
    board: str | Board | Sequence[Board] = "local",
    options: TuneOptions | None = None,
    code: CodeOptions | None = None,
    *,
    listener: Callable[[Event], None] = ignore,
) -> TuneResult:
    """Search for faster code by measuring candidates on boards; `build` uses what was found.

    Every trial is stored at once in the user's records: after an interrupt the next run continues from there.

    Parameters
    ----------
    board
        A board; or a class or group, for all its boards at once. A list of boards is used as it is.
    listener
        Called with each event of `toolchain.tuning.events`, in threads of the run, too.

    Raises
    ------
    UsageError
        There is no such board, or an option does not fit.
    ToolchainError
        No board can measure, or all candidates of the first round fail.
    """
    code, options = _code_for(model, code), options or TuneOptions()

    def note(text: str) -> None:
        listener(Notice(text))

    boards = _boards_of(board, options, code, note)
    backend = backend_for(boards[0].profile, code)
    with open_records(note) as store:
        return tuning.tune(model, backend, boards, store, options, listener)


def build(
    model: Model,
    board: str | Board | BuildFor = "local",
    output: str | Path = ".",
    options: BuildOptions | None = None,
    *,
    progress: Callable[[str], None] = ignore,
) -> BuildResult:
    """Compile a network into a bundle; tasks without a matching record get the default code.

    Parameters
    ----------
    board
        A board or a board class.
    output
        Folder for `<network>-<board>.so` and `.bundle`.
    progress
        Called with the name of each step as it begins, and with warnings.

    Raises
    ------
    UsageError
        There is no such board, or an option or the sample does not fit.
    CheckError
        `options.check` is set and the outputs on this host are wrong; nothing is written.
    ToolchainError
        A task lacks the record that `options.require_tuned` demands; or the compiler, the linker, the check
        of the library or the disk failed.
    """
    options = options or BuildOptions()
    code = _code_for(model, options.code)
    target = _target_of(board, code, progress)
    with open_records(progress) as store:
        return building.build(model, target, store, Path(output), options, progress)


def _target_of(
    board: str | Board | BuildFor, code: CodeOptions | None = None, note: Callable[[str], None] = ignore
) -> BuildFor:
    """Return the board or class to build for, with the board's own rates if `code` asks for them."""
    if isinstance(board, BuildFor):
        return board
    target = find_target(board) if isinstance(board, str) else board.build_for
    return target if code is None else with_chosen_rates(target, code, note)


def _boards_of(
    board: str | Board | Sequence[Board], options: TuneOptions, code: CodeOptions, note: Callable[[str], None]
) -> Sequence[Board]:
    if not isinstance(board, str | Board):
        return board
    if isinstance(board, str):
        boards = find_measured(board, on_boards=measured_on_boards(options.runner, code.device_kind))
    else:
        boards = [board]
    return with_chosen_rates_of_all(boards, code, note)


def _code_for(model: Model, code: CodeOptions | None) -> CodeOptions:
    """Return the options of the code.

    Raises
    ------
    UsageError
        The model was quantised and the code computes in floats, or the other way round.
    """
    code = code or CodeOptions()
    quantised = any(shape.options.quantizer for shape in model.shapes)
    if quantised != (code.dtype == "int8"):
        raise UsageError(
            f"{model.source} was loaded {'quantised' if quantised else 'in floats'}, "
            f"and its code is to compute in {code.dtype}",
            "quantise with ModelOptions(quantizer=…), one of "
            f"{', '.join(QUANTIZERS)}, and compile with CodeOptions(dtype='int8')",
        )
    return code
