"""Candidates by a model: its times are added, its refusals are failures, and nothing is called measured."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from toolchain.backends.packed.backend import Packed
from toolchain.devices.kernel import Kernel
from toolchain.errors import ToolchainError, UsageError
from toolchain.lowering.modelled import KernelModelRunner, device_runners
from toolchain.profiles import load_profile
from toolchain.tasks.candidate import Candidate, Entry
from toolchain.tasks.evaluator import BuiltCandidate
from toolchain.tasks.options import CodeOptions
from toolchain.tasks.task import Task
from toolchain.testbeds.mali.estimate import Estimate
from toolchain.testbeds.mali.model import Modelled
from toolchain.testbeds.mali.statistics import Block, KernelStatistics

COMPILED = KernelStatistics(4, 1, 1, 1, 0, 0, 256, (Block(),), ())
TASK: Task = None  # type: ignore[assignment]  # the runner asks nothing of it


class Model:
    """A kernel takes as many ms as its name says; `bad` does not compile."""

    def ask(self, kernels: list[Kernel]) -> list[Modelled]:
        return [
            Modelled(each, None, None, "kernel bad does not compile: why")
            if each.name == "bad"
            else Modelled(each, COMPILED, Estimate(1, 1, 0, 1, 1.0, float(each.name)))
            for each in kernels
        ]


@dataclass(frozen=True)
class Code:
    names: tuple[str, ...]

    def objects(self, symbol: str) -> tuple[bytes, ...]:
        raise ToolchainError(f"the model compiles no {symbol}")

    linkable = objects

    def launches(self) -> list[Kernel]:
        if not self.names:
            raise ToolchainError("TVM cannot compile a candidate: why")
        return [Kernel(name, "", (1, 1, 1), (1, 1, 1)) for name in self.names]


def built(runner: KernelModelRunner, *codes: object) -> list[BuiltCandidate]:
    entry = Entry("packed", "", "")
    return runner.build([Candidate(entry, code, (), 1) for code in codes])


def test_times_of_kernels_are_added_and_failures_cost_the_others_nothing() -> None:
    runner = KernelModelRunner(Model(), "mali-model")
    made = built(runner, Code(("1.5", "2")), Code(("1", "bad")), Code(()), object(), Code(("0.25",)))
    found = runner.run(TASK, made)
    assert [result.run_ms for result in found] == [(3.5,), (), (), (), (0.25,)]
    assert [result.failure for result in found] == [None, "build", "build", "build", None]
    assert [result.message for result in found[1:4]] == [
        "kernel bad does not compile: why",
        "TVM cannot compile a candidate: why",
        "this code is for a CPU: it has no kernels",
    ]
    assert all(result.modelled and result.board == "mali-model" for result in found)
    assert runner.compare(TASK, made[:1], 3) == [found[:1]] * 3
    assert runner.check(TASK, made) == found


@pytest.mark.parametrize(
    ("board", "kind", "name", "there"),
    [
        ("rk3399", "opencl", "", True),
        ("rk3399", "opencl", "mali-t860", True),
        ("rk3399", "opencl", "pthread-something", False),
        ("x86_64", "opencl", "", False),
        ("x86_64", "opencl", "Mali-T860", True),
        ("rk3399", "cpu", "", False),
    ],
)
def test_it_is_offered_for_the_gpu_that_it_is_a_model_of(
    board: str, kind: str, name: str, there: bool
) -> None:
    assert list(device_runners(load_profile(board), kind, name)) == ["mali-model"] * there


def test_float16_is_refused() -> None:
    options = CodeOptions(device="opencl", dtype="float16")
    backend = Packed(load_profile("rk3399"), options)
    with (
        pytest.raises(UsageError, match="--runner mali-model: the model cannot judge float16") as told,
        backend.runners["mali-model"].evaluator(backend.target()),
    ):
        pass
    assert "--dtype float32" in told.value.hint
