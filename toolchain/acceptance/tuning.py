"""The step with a small tuning run, whose winners are judged."""

from __future__ import annotations

from dataclasses import replace

from toolchain.acceptance.choices import NetworkChoice
from toolchain.acceptance.context import WAIT_S, AcceptContext
from toolchain.acceptance.document import rounded
from toolchain.acceptance.found import TunedFound, TuneFound
from toolchain.acceptance.networks import absent, unreal, worst_error
from toolchain.acceptance.public import keyword
from toolchain.acceptance.step import StepEnd
from toolchain.backends.table import backend_for
from toolchain.building.build import BuildOptions, build
from toolchain.bundles.read import read_bundle
from toolchain.measuring.verify import verify_bundle
from toolchain.records.store import RecordStore
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.result import TuneResult
from toolchain.tuning.run.tune import tune

TRIALS = 16
_HEAVIEST = 2  # tasks
_SHARE, _LEAST_S, _MOST_S = 0.25, 20.0, 300.0


def tune_some(context: AcceptContext, choice: NetworkChoice, kind: str) -> StepEnd:
    """Tune the heaviest tasks of a network for a short time, and verify the network with the winners.

    The records are kept apart from the user's, and dropped.
    """
    if gone := absent(context, kind):
        return gone
    built, board = context.built(choice, kind, keep=True), context.board
    code = choice.code_options(kind)
    options = TuneOptions(
        trials=TRIALS, heaviest=_HEAVIEST, repeat=2, time_s=context.left.part(_SHARE, _LEAST_S, _MOST_S)
    )
    context.note(f"tuning {choice.name} on {kind} for {options.time_s:.0f} s at most")
    with RecordStore(context.folder / "tuned.sqlite") as store:
        tuned = tune(built.model, backend_for(board.profile, code), [board], store, options, context.listener)
        out = context.folder / "tuned"
        made = build(built.model, board.build_for, store, out, BuildOptions(code=code))
    bundle = read_bundle(made.bundle)
    verified = verify_bundle(bundle, board, wait=WAIT_S, device=context.place(kind))
    found = TuneFound(
        network=choice.name,
        device=keyword(kind),
        real=context.device(kind).real,
        threads=verified.threads,
        cluster=keyword(str(verified.place["cluster"])),
        trials=sum(each.trials for each in tuned.tasks),
        failed=sum(each.failed for each in tuned.tasks),
        judged="in the network" if tuned.network else "alone",
        before_ms=rounded(tuned.network.before_ms) if tuned.network else None,
        after_ms=rounded(tuned.network.after_ms) if tuned.network else None,
        error=worst_error(verified.comparison),
        tasks=_tasks(tuned),
    )
    end = StepEnd("passed", unreal(context, kind), found)
    if not verified.passed:
        return replace(
            end, result="failed", reason="wrong numbers: the network with the winners is off", wrong=True
        )
    if found.trials and found.failed == found.trials:
        return replace(end, result="failed", reason="every trial failed: `toolchain tune` says why")
    return end


def _tasks(tuned: TuneResult) -> tuple[TunedFound, ...]:
    return tuple(
        TunedFound(
            task=keyword(each.task.name),
            choice=keyword(each.won),
            trials=each.trials,
            default_ms=rounded(each.default_ms),
            best_ms=rounded(each.best_ms),
        )
        for each in tuned.tasks
    )
