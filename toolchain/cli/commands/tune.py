"""`toolchain tune`: measures candidates and stores records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from toolchain.cli.engine import container_for, files_of
from toolchain.cli.model_options import model_argument, several_shapes
from toolchain.cli.options import (
    Seconds,
    board_name,
    board_option,
    cluster_option,
    device_option,
    engine_option,
    gathered,
    trial_timeout_option,
)
from toolchain.cli.output import emit, hold_places, note, output_options
from toolchain.cli.progress import event_log, thinned_out
from toolchain.cli.tuning.progress import tuning_progress
from toolchain.cli.tuning.tables import show_plan, show_result
from toolchain.errors import UsageError
from toolchain.tuning.options import TuneOptions

if TYPE_CHECKING:
    from toolchain.models.options import ModelOptions
    from toolchain.tasks.options import CodeOptions


def _task_ids(_context: click.Context, _option: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())


@dataclass(frozen=True)
class TuneMode:
    """The options that replace measuring on boards: a dry run, or a folder for a board without a link.

    Attributes
    ----------
    export
        The folder to write candidates to, for a board that cannot be reached.
    max_mib
        Its largest size.
    import_
        The folder with the results of such a board.
    dry_run
        Whether only the plan is printed.
    """

    export: Path | None
    max_mib: int
    import_: Path | None
    dry_run: bool

    @property
    def offline(self) -> str:
        """`--export` or `--import`, whichever was given; empty if neither was."""
        return "--export" if self.export else "--import" if self.import_ else ""

    def check(self, runner: str | None) -> None:
        """Refuse options that exclude each other."""
        for option, folder in (("--export", self.export), ("--import", self.import_)):
            others = {
                "--import": self.import_ and option != "--import",
                "--runner": runner,
                "--dry-run": self.dry_run,
            }
            if folder and (odd := next((name for name, other in others.items() if other), None)):
                raise UsageError(f"{option} and {odd} do not go together", f"leave {odd} out")
        source = click.get_current_context().get_parameter_source("max_mib")
        if self.export is None and source is ParameterSource.COMMANDLINE:
            raise UsageError("--max-mib: only --export writes a folder", "add --export DIR, or leave it out")


@click.command()
@model_argument
@board_option("The board to measure on; a class or a group: all its boards at once.")
@cluster_option
@device_option
@several_shapes
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Number of candidates to measure.",
)
@click.option(
    "--time",
    "time_s",
    type=Seconds(),
    metavar="S",
    help="Time limit in seconds, a quarter of it for comparing the fastest; what does not fit is skipped.",
)
@click.option(
    "--early-stopping",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop a task after N trials in a row that improved it by less than 1 %.",
)
@click.option(
    "--tasks",
    metavar="ID,…",
    default="",
    callback=_task_ids,
    help="Tune only these; `toolchain tasks` lists them.",
)
@click.option("--number", type=click.IntRange(min=1), default=1, show_default=True, help="Calls per sample.")
@click.option(
    "--repeat", type=click.IntRange(min=1), default=3, show_default=True, help="Samples per candidate."
)
@click.option(
    "--min-repeat-ms",
    "sample_ms",
    type=click.IntRange(min=0),
    help="Minimum length of a sample in ms; default: 20, with --device cuda 300.",
)
@trial_timeout_option
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Default: the cluster's cores.")
@click.option(
    "--tuner",
    metavar="NAME",
    help="Search algorithm: xgb, xgb-rank, xgb-knob, ga, random, gridsearch (the default for packed code), "
    "or evolutionary (the default for other layouts, and only for those).",
)
@click.option(
    "--scheduler",
    metavar="NAME",
    default="gradient",
    show_default=True,
    help="How trials are shared among tasks: gradient (where they promise to save most) or round-robin.",
)
@click.option(
    "--builders",
    metavar="N|dask://HOST:PORT",
    help="Where candidates are compiled: N processes here (default: the setting `jobs`), or a Dask cluster.",
)
@click.option(
    "--runner",
    metavar="NAME",
    help="What measures: boards (the default except for a VTA), or a model of the device: mali-model "
    "(Mali-T860) or vta-model (cycles of a VTA). Models need no board; their records say so.",
)
@click.option("--fresh", is_flag=True, help="Ignore what earlier runs measured.")
@click.option(
    "--search-seed",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Random seed of xgb, ga, random and evolutionary; gridsearch has a fixed order.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the run's plots as an HTML page; `toolchain report` can also make it later.",
)
@click.option(
    "--export",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Measure nothing: write the candidates to a new folder, for `DIR/edge-rt measure DIR` on a board "
    "that cannot be reached.",
)
@click.option(
    "--max-mib",
    type=click.IntRange(min=1),
    default=48,
    show_default=True,
    metavar="N",
    help="With --export: the largest size of the folder; what does not fit is listed.",
)
@click.option(
    "--import",
    "import_",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Measure nothing: store what `edge-rt measure` wrote to an exported folder.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be tuned; measure nothing.")
@engine_option
@output_options
@gathered("search", TuneOptions)
@gathered("mode", TuneMode)
def tune(
    model: str,
    board: str | None,
    options: ModelOptions,
    code: CodeOptions,
    search: TuneOptions,
    sample_ms: int | None,
    mode: TuneMode,
    report: Path | None,
    engine: str | None,
) -> int | None:
    """Search for faster code by measuring candidates on a board.

    Every trial is stored at once: stop with Ctrl-C at any time, and the next run continues from there.
    Measurements in progress are completed; a second Ctrl-C does not wait for them. `toolchain build` applies
    the results.
    """
    from toolchain.api.rates import with_chosen_rates_of_all
    from toolchain.backends.table import backend_for, measured_on_boards
    from toolchain.boards.inventory.lookup import find_measured
    from toolchain.files.atomic import check_writable
    from toolchain.models.load import check_source

    mode.check(search.runner)
    on_boards = measured_on_boards(search.runner, code.device_kind)
    if mode.offline and not on_boards:
        raise UsageError(
            f"{mode.offline}: candidates for {code.device_kind} are not measured on boards",
            "tune without it: a model or simulator on this host measures them",
        )
    for path in (report, mode.export):
        if path and not mode.dry_run:
            check_writable(path)
    boards = find_measured(board_name(board), on_boards=on_boards and not mode.offline)
    half_loaded = check_source(model, options)  # before boards are reserved, and containers started
    if on_boards and not mode.dry_run and not mode.offline:
        hold_places(boards)
    engine = engine if on_boards else engine or "host"  # a model or simulator starts its own container
    boards = with_chosen_rates_of_all(boards, code, note)
    profile = boards[0].profile
    profile.device(code.device_kind)
    reads = [*options.value_files, *([mode.import_] if mode.import_ else [])]
    writes = [path.parent for path in (report, mode.export) if path]
    if container := container_for(
        engine, profile, code.device_kind, files_of(model, files=reads), writes, model=model
    ):
        del half_loaded  # which holds the network's weights
        if mode.dry_run or not on_boards or mode.offline:
            return container.run()
        from toolchain.rpc.lab import join

        if any(board.power for board in boards):
            note("a board that goes silent is not power-cycled from inside a container: add --engine host")
        # This host reaches the boards and has the keys to them; the container has not.
        cores = profile.cluster(search.cluster)
        with join(boards, search.threads or cores.cores, cores.cpu, progress=thinned_out(note)) as lab:
            return container.run(lab)

    from toolchain.api import networks
    from toolchain.api.records import open_records
    from toolchain.devices.table import kind_of
    from toolchain.models.multi_shape import load_shapes
    from toolchain.tuning.run.plan import plan_model

    sample_ms = kind_of(code.device_kind).sample_ms if sample_ms is None else sample_ms
    search = replace(search, min_repeat_ms=sample_ms)
    backend, loaded = backend_for(profile, code), load_shapes(model, options, half_loaded)
    del half_loaded  # which holds the network's weights once more
    if mode.dry_run:
        with open_records(note) as store:
            planned = plan_model(loaded, backend, boards, store, search)
        emit(planned.to_json(), lambda: show_plan(planned))
        return None
    if mode.export:
        from toolchain.cli.tuning.offline import export_candidates

        export_candidates(loaded, backend, boards[0], search, mode.export, mode.max_mib << 20)
        return None
    names = [target.name for target in boards]
    with event_log("tune", model, names) as log, tuning_progress(log) as listener:
        if mode.import_:
            from toolchain.tuning.offline.importing import import_results

            with open_records(note) as store:
                result = import_results(loaded, backend, boards[0], store, search, mode.import_, listener)
        else:
            result = networks.tune(loaded, boards, search, code, listener=listener)
    if report:
        from toolchain.reports.tuning import report_result

        with open_records(note) as store:
            report_result(report, store, result, loaded.source)
    emit(result.to_json(), lambda: show_result(result))
    return None
