"""Plans the steps of an acceptance: what the board's class promises, in the order that gives most first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest

from toolchain.acceptance import facts, networks, predictions, self_test, tuning
from toolchain.acceptance.choices import NetworkChoice, networks_for
from toolchain.acceptance.public import keyword
from toolchain.acceptance.step import AcceptStep
from toolchain.devices.device import CPU
from toolchain.errors import UsageError
from toolchain.profiles import Profile


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
    run = partial(self_test.self_test, choice=choice, kind=CPU)
    return AcceptStep("self-test", f"let edge-rt install {choice.name} as a release and test it", run)


def _tune(choice: NetworkChoice) -> AcceptStep:
    run = partial(tuning.tune_some, choice=choice, kind=CPU)
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
