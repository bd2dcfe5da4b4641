"""Plans the steps of an acceptance: what the board's class promises, in the order that gives most first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Protocol

from toolchain.acceptance import facts, networks, predictions, tuning
from toolchain.acceptance.choices import NetworkChoice, networks_for
from toolchain.acceptance.context import AcceptContext
from toolchain.acceptance.step import AcceptStep, StepEnd
from toolchain.devices.device import CPU
from toolchain.errors import UsageError
from toolchain.profiles import Profile


class _Run(Protocol):
    def __call__(self, context: AcceptContext, choice: NetworkChoice, kind: str) -> StepEnd: ...


def planned_steps(profile: Profile) -> list[AcceptStep]:
    """Return the steps for a board of a class; no board is asked."""
    kinds = list(dict.fromkeys(device.kind for device in profile.devices))
    lists = {kind: networks_for(profile, kind) for kind in kinds}
    firsts = {kind: choices[0] for kind, choices in lists.items() if choices}
    return [
        AcceptStep("facts", "compare the board with its class", facts.facts, always=True),
        AcceptStep("edge-rt", "check that edge-rt works there", facts.program, always=True),
        AcceptStep("rates", "measure how fast its cores are", facts.rates),
        *(_verify(choice, kind, first=True) for kind, choice in firsts.items()),
        *(_on_device("bench", "time", networks.bench, *each) for each in firsts.items()),
        *(
            _on_device("predict", "compare models with times of", predictions.predict, *each)
            for each in firsts.items()
        ),
        *(
            _on_device("tune", "tune some tasks of", tuning.tune_some, kind, choice)
            for kind, choice in firsts.items()
            if kind == CPU
        ),
        *_others(lists),
    ]


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


def _on_device(name: str, verb: str, run: _Run, kind: str, choice: NetworkChoice) -> AcceptStep:
    return AcceptStep(
        f"{name}:{kind}", f"{verb} {choice.name} on {kind}", partial(run, choice=choice, kind=kind)
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
