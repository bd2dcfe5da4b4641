"""Steps with a network on a device: its outputs against onnxruntime's, and its latency."""

from __future__ import annotations

from statistics import median

from toolchain.acceptance.choices import NetworkChoice
from toolchain.acceptance.conditions import ask_system
from toolchain.acceptance.context import AcceptContext, NetworkBuilt
from toolchain.acceptance.document import rounded
from toolchain.acceptance.found import BenchFound, BoardConditions, VerifyFound
from toolchain.acceptance.public import keyword
from toolchain.acceptance.step import StepEnd
from toolchain.measuring.bench import bench_bundle, unsteadiness
from toolchain.measuring.execution import Sampling
from toolchain.measuring.numerics import Comparison
from toolchain.measuring.verify import verify_bundle

_LEAST_FOR_DRIFT = 8  # runs, of which two are a quarter
_DRIFT = 1.05  # how much longer the last quarter of the runs may take
_CLOCK = 0.95  # of the highest clock, below which a core with the governor `performance` is throttled
_SHARE, _LEAST_S, _MOST_S = 0.05, 2.0, 30.0


def absent(context: AcceptContext, kind: str) -> StepEnd | None:
    """Return the end of a step whose device the board does not have."""
    if context.device(kind).there:
        return None
    return StepEnd(
        "skipped", f"the board's drivers report no device of kind {keyword(kind)}: see `board status`"
    )


def verify(context: AcceptContext, choice: NetworkChoice, kind: str, *, keep: bool) -> StepEnd:
    """Compare the outputs of a network on a device with onnxruntime's.

    Parameters
    ----------
    keep
        Whether later steps need the network, too.
    """
    if gone := absent(context, kind):
        return gone
    built = context.built(choice, kind, keep=keep)
    context.note(f"verifying {choice.name} on {kind}")
    result = verify_bundle(built.bundle, context.on_board, context.execution(kind))
    found = VerifyFound(
        network=choice.name,
        device=keyword(kind),
        real=context.device(kind).real,
        threads=result.threads,
        cluster=keyword(str(result.place["cluster"])),
        gflop=rounded(built.bundle.manifest.model.flops / 1e9),
        outputs=len(result.comparison.outputs),
        error=worst_error(result.comparison),
        tolerance=result.comparison.worst.tolerance,
    )
    if not result.passed:
        for each in result.comparison.outputs:
            if not each.passed:
                context.note(f"output {each.name}: {each.problem or each.max_rel_error}")
        off = "cannot be compared" if found.error is None else f"are off by {found.error:.3g}"
        return StepEnd(
            "failed", f"wrong numbers: outputs {off}, tolerance {found.tolerance:g}", found, wrong=True
        )
    return StepEnd("passed", unreal(context, kind), found)


def worst_error(comparison: Comparison) -> float | None:
    """Return the largest relative error of an output; None if one cannot be compared."""
    errors = [each.max_rel_error for each in comparison.outputs]
    known = [error for error in errors if error is not None]
    return rounded(max(known)) if known and len(known) == len(errors) else None


def unreal(context: AcceptContext, kind: str) -> str:
    """Return the caveat about a device that is no hardware of its kind; empty if it is."""
    if context.board.emulated:
        return "emulated: its times say nothing about silicon"
    if context.device(kind).real:
        return ""
    return "simulated, or computed by a CPU in its place: its times say nothing about such a device"


def bench(context: AcceptContext, choice: NetworkChoice, kind: str) -> StepEnd:
    """Time a network on a device; tell noise, throttling, and how the board was before and after."""
    if gone := absent(context, kind):
        return gone
    if context.place(kind) or not (context.device(kind).real or context.board.emulated):
        return StepEnd("skipped", "the board has no such hardware: there is no time to measure")
    return _timed(context, context.built(choice, kind, keep=True), kind)


def on_cluster(context: AcceptContext, choice: NetworkChoice, kind: str, cluster: str) -> StepEnd:
    """Verify and time a network on the cores of a cluster that is not the class's first."""
    built = context.built(choice, kind, cluster)
    context.note(f"verifying {choice.name} on {cluster}")
    result = verify_bundle(built.bundle, context.on_board)
    if not result.passed:
        return StepEnd("failed", f"wrong numbers on {keyword(cluster)}", wrong=True)
    return _timed(context, built, kind)


def _timed(context: AcceptContext, built: NetworkBuilt, kind: str) -> StepEnd:
    choice = built.choice
    before = ask_system(context.board).conditions()
    time_s = context.left.part(_SHARE, _LEAST_S, _MOST_S)
    context.note(f"timing {choice.name} on {kind}")
    timed = bench_bundle(built.bundle, context.on_board, Sampling(time_s=time_s), context.execution(kind))
    after = ask_system(context.board).conditions()
    found = BenchFound(
        network=choice.name,
        device=keyword(kind),
        real=context.device(kind).real,
        threads=timed.threads,
        cluster=keyword(timed.cluster),
        mean_ms=rounded(timed.mean_ms),
        p50_ms=rounded(timed.p50_ms),
        p95_ms=rounded(timed.p95_ms),
        min_ms=rounded(timed.min_ms),
        runs=timed.runs,
        noise=rounded(timed.noise),
        drift=drift(timed.times_ms),
        peak_rss_mib=rounded(timed.peak_rss_mib),
        before=before,
        after=after,
    )
    caveat = unreal(context, kind)
    if caveat:
        return StepEnd("passed", caveat, found)
    problems = _problems(found)
    return StepEnd("missed" if problems else "passed", "; ".join(problems)[:400], found)


def drift(times_ms: tuple[float, ...]) -> float | None:
    """Return the median of the last quarter of the runs over that of the first; None if they are too few."""
    if len(times_ms) < _LEAST_FOR_DRIFT:
        return None
    quarter = len(times_ms) // 4
    return rounded(median(times_ms[-quarter:]) / median(times_ms[:quarter]))


def _problems(found: BenchFound) -> list[str]:
    problems = []
    if unsteady := unsteadiness(found.noise):
        problems.append(unsteady)
    if found.drift is not None and found.drift > _DRIFT:
        problems.append(f"the last runs took {found.drift - 1:.0%} longer than the first: throttled by heat?")
    if clock := throttled(found.after):
        problems.append(clock)
    return problems


def throttled(after: BoardConditions) -> str:
    """Return which clock is below its highest though its governor is `performance`; empty if none is."""
    if after.governors != ("performance",):
        return ""  # the clock follows the load, which has just ended
    for now, most in zip(after.mhz, after.most_mhz, strict=False):
        if now < _CLOCK * most:
            return f"a clock is at {now} of {most} MHz: throttled"
    return ""
