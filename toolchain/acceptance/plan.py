"""Plans the steps of an acceptance: what the board's class promises, in the order that gives most first."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import get_args

from nacl.signing import SigningKey

from toolchain.acceptance import facts, networks, predictions
from toolchain.acceptance.choices import NetworkChoice, networks_for
from toolchain.acceptance.context import AcceptContext
from toolchain.acceptance.document import rounded
from toolchain.acceptance.found import SelfTestFound, TunedFound, TuneFound
from toolchain.acceptance.leaving import FIELD
from toolchain.acceptance.networks import absent, unreal, worst_error
from toolchain.acceptance.public import keyword
from toolchain.acceptance.step import AcceptStep, StepEnd
from toolchain.backends.table import backend_for
from toolchain.boards.edge_rt.install import command
from toolchain.bundles.read import read_bundle
from toolchain.devices.device import CPU
from toolchain.errors import ToolchainError, UsageError
from toolchain.foreign import last_line
from toolchain.measuring.verify import verify_bundle
from toolchain.profiles import Profile
from toolchain.records.store import RecordStore
from toolchain.releases.envelope import PublicKey
from toolchain.releases.export import stream_head
from toolchain.releases.signature import SignRequest, add_signatures, prepare
from toolchain.releases.signed_release import SignedRelease
from toolchain.releases.succession import first_trust
from toolchain.rollouts.installer import InstallerLine, InstallStep, Progress, send_release
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.result import TuneResult

# The step with edge-rt's own self-test: it installs a release in a folder that is then removed.

_DAY_S = 86_400
_ANSWER_S = 60.0
_BILLION = 1e9


@dataclass(frozen=True)
class OneDayKey:
    """A private key that is in this process's memory alone."""

    private: SigningKey

    @property
    def key(self) -> PublicKey:
        """The public half of the key."""
        return PublicKey(self.private.verify_key.encode())

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message."""
        return self.private.sign(message).signature


def self_test(context: AcceptContext, choice: NetworkChoice, kind: str) -> StepEnd:
    """Let edge-rt check, unpack, test and activate a release as boards in the field do.

    The key is drawn for this step; the board's own trust and releases are in another folder.
    """
    if gone := absent(context, kind):
        return gone
    signer = OneDayKey(SigningKey.generate())
    until = int(time.time()) + _DAY_S
    request = SignRequest(
        version="0.0.1",
        expires=until,
        app="acceptance",
        classes=(context.board.record_class,),
        unverified=True,
    )
    built = context.built(choice, kind, keep=True)
    signed = add_signatures(prepare(built.bundle, request), [signer])
    trust = first_trust([signer.key], [signer.key], 1, 1, until).enveloped().signed_by(signer, "the trust")
    context.note(f"letting edge-rt test {choice.name}")
    try:
        _trust(context, trust.to_bytes())
        line = _install(context, signed)
    finally:
        with contextlib.suppress(ToolchainError):  # `remove_what_came` tries again
            context.board.transport.remove(FIELD)
    if line.end != "installed" or line.test is None or line.test.error_ppb is None:
        context.note(f"self-test: {line.cause.message if line.cause else line.end}")
        step = (
            line.cause.step if line.cause and line.cause.step in get_args(InstallStep) else "an unknown step"
        )
        return StepEnd("failed", f"edge-rt did not install its release: {step} failed", wrong=step == "test")
    found = SelfTestFound(
        network=choice.name,
        error=rounded(line.test.error_ppb / _BILLION),
        latency_ms=rounded(line.test.latency_us / 1e3),
        memory_mib=rounded(line.test.memory_kib / 1024),
        runs=line.test.runs,
    )
    return StepEnd("passed", unreal(context, kind), found)


def _trust(context: AcceptContext, trust: bytes) -> None:
    program = context.installed().program
    completed = context.board.transport.run(
        [program, "trust", "--field", FIELD, "--first"], input=trust, timeout=_ANSWER_S
    )
    if completed.returncode != 0:
        said = last_line(completed.stdout if completed.stdout.strip() else completed.stderr)
        raise ToolchainError(
            f"`edge-rt trust` failed: {said}", "see its disk and clock: `toolchain board status`"
        )


def _install(context: AcceptContext, signed: SignedRelease) -> InstallerLine:
    board = context.board
    argv = command(
        context.installed().program, "install", "-", "--field", FIELD, only_device=board.only_device
    )
    head = stream_head(signed, board_class=board.record_class)
    with contextlib.closing(board.transport.talk(argv)) as dialogue:
        return send_release(dialogue, signed, head, board.name, Progress())


# The step with a small tuning run, whose winners are judged.

TRIALS = 16
_HEAVIEST = 2  # tasks
_SHARE, _LEAST_S, _MOST_S = 0.25, 20.0, 300.0


def tune_some(context: AcceptContext, choice: NetworkChoice, kind: str) -> StepEnd:
    """Tune the heaviest tasks of a network for a short time, and verify the network with the winners.

    The records are kept apart from the user's, and dropped.
    """
    from toolchain.building.build import build  # imports TVM, which the plan does without
    from toolchain.building.options import BuildOptions
    from toolchain.tuning.run.tune import tune

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
    verified = verify_bundle(bundle, context.on_board, context.execution(kind))
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


def planned_steps(profile: Profile) -> list[AcceptStep]:
    """Return the steps for a board of a class; no board is asked."""
    kinds = list(dict.fromkeys(device.kind for device in profile.devices))
    lists = {kind: networks_for(profile, kind) for kind in kinds}
    firsts = {kind: choices[0] for kind, choices in lists.items() if choices}
    own = firsts.get(CPU)
    clusters = [cluster.cpu for cluster in profile.clusters[1:]]
    return [
        AcceptStep("facts", "compare the board with its class", facts.facts, always=True),
        AcceptStep("edge-rt", "check that edge-rt works there", facts.program, always=True),
        AcceptStep("rates", "measure how fast its cores are", facts.rates),
        *(_verify(choice, kind, first=True) for kind, choice in firsts.items()),
        *(_bench(choice, kind) for kind, choice in firsts.items()),
        *(_bench_cluster(own, cluster) for cluster in clusters if own),
        *(_predict(choice, kind) for kind, choice in firsts.items()),
        *(each for each in (own and _self_test(own), own and _tune(own)) if each),
        *_others(lists),
    ]


def _bench(choice: NetworkChoice, kind: str) -> AcceptStep:
    run = partial(networks.bench, choice=choice, kind=kind)
    return AcceptStep(f"bench:{kind}", f"time {choice.name} on {kind}", run)


def _bench_cluster(choice: NetworkChoice, cluster: str) -> AcceptStep:
    run = partial(networks.on_cluster, choice=choice, kind=CPU, cluster=cluster)
    return AcceptStep(f"bench:{CPU}:{keyword(cluster)}", f"verify and time {choice.name} on {cluster}", run)


def _predict(choice: NetworkChoice, kind: str) -> AcceptStep:
    run = partial(predictions.predict, choice=choice, kind=kind)
    return AcceptStep(f"predict:{kind}", f"compare models with times of {choice.name} on {kind}", run)


def _self_test(choice: NetworkChoice) -> AcceptStep:
    run = partial(self_test, choice=choice, kind=CPU)
    return AcceptStep("self-test", f"let edge-rt install {choice.name} as a release and test it", run)


def _tune(choice: NetworkChoice) -> AcceptStep:
    run = partial(tune_some, choice=choice, kind=CPU)
    return AcceptStep(f"tune:{CPU}", f"tune some tasks of {choice.name}", run)


def _others(lists: dict[str, list[NetworkChoice]]) -> Iterator[AcceptStep]:
    """Yield the verifications of all further networks, one of each device in turn."""
    for turn in zip_longest(*([(kind, each) for each in found[1:]] for kind, found in lists.items())):
        for pair in turn:
            if pair is not None:
                kind, choice = pair
                yield _verify(choice, kind, first=False)


def _verify(choice: NetworkChoice, kind: str, *, first: bool) -> AcceptStep:
    run = partial(networks.verify, choice=choice, kind=kind, keep=first)
    return AcceptStep(
        f"verify:{kind}:{choice.name}",
        f"verify {choice.name} on {kind}",
        run,
        always=first,
        work=choice.gflop,
    )


def check_skips(steps: Sequence[AcceptStep], skips: Sequence[str]) -> None:
    """Refuse words of `--skip` that name no step.

    Raises
    ------
    UsageError
        A word names no step; the message lists the steps.
    """
    for text in skips:
        if not any(step.named_by(text) for step in steps):
            known = ", ".join(step.name for step in steps)
            raise UsageError(
                f"--skip {text}: there is no such step; the steps are: {known}",
                "a beginning names several: --skip verify:opencl",
            )
