"""Processes of this host compile; what ends one of them costs itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.tuning.builders.fleet_code import Crashing, Refused, Said
from tests.waiting import until
from toolchain.tuning.builders import choice as host
from toolchain.tuning.builders.choice import HostCompilers

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def compilers() -> Iterator[HostCompilers]:
    made = HostCompilers(2)
    yield made
    mine = [worker._process for worker in made._workers if worker._process]
    made.close()
    until(lambda: all(process.poll() is not None for process in mine))


def test_each_is_compiled_under_its_symbol_in_their_order(compilers: HostCompilers) -> None:
    made = compilers.compile([(Said(str(n)), f"main_{n}") for n in range(5)])
    assert [each.objects for each in made] == [(f"main_{n} {n}".encode(),) for n in range(5)]


def test_one_that_is_refused_or_ends_its_process_costs_itself(compilers: HostCompilers) -> None:
    made = compilers.compile([(Said("a"), "a"), (Refused(), "b"), (Crashing(), "c"), (Said("d"), "d")])
    assert [each.failure for each in made] == [None, "build", "build", None]
    assert made[1].message == "b: no such instruction"
    assert made[2].message == "compiling: the process ended with exit code -6"


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "in the middle"])
def test_a_process_that_is_killed_from_outside_costs_no_candidate(
    compilers: HostCompilers, *, busy: bool
) -> None:
    compilers.compile([(Said("a"), "a")] * 2)

    def kill() -> None:
        for worker in compilers._workers:
            worker.kill()

    if busy:
        threading.Timer(0.5, kill).start()
    else:
        kill()
    made = compilers.compile([(Said("a", takes_s=1), "a")] * 2)
    assert [each.failure for each in made] == [None] * 2


def test_one_that_takes_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch, compilers: HostCompilers) -> None:
    compilers.compile([(Said("a"), "a")] * 2)  # both have begun
    monkeypatch.setattr(host, "COMPILE_S", 5.0)
    (made,) = compilers.compile([(Said("late", takes_s=600), "a")])
    assert made.failure == "timeout"
    assert made.message == "compiling: no answer within 5 s"
