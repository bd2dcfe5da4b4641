"""Faults planted into the kernels of each CUDA algorithm: the driver or the outputs show them all."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import onnx
import pytest

from tests.backends.packed.algorithms.gemm.products import Product
from tests.backends.packed.single import Layer
from tests.backends.packed.stages.test_shared_rows import alone
from tests.opencl.networks import layer
from tests.testbeds.cuda.planted import Bed, places
from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.algorithms.gemm.algorithm import GemmChoice
from toolchain.backends.packed.algorithms.implicit_gemm.choice import ImplicitGemmChoice
from toolchain.backends.packed.algorithms.policy import default_choice
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.network import choices
from toolchain.backends.packed.recognise.contraction import Contraction, Matmul

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

CHANNELS = 18
FLOAT32, FLOAT16 = ("float32", 3e-6), ("float16", 5e-3)


@dataclass(frozen=True)
class Case:
    """A network whose first kernel is changed; its choice, type and error; what is harmless, and why."""

    model: onnx.ModelProto
    choice: Choice | None = None
    of: tuple[str, float] = FLOAT32
    harmless: dict[str, str] = field(default_factory=dict)


WAITED = "the loop has waited for each step with a copy, and the groups after them are empty"
LAST_WAIT = {"missing wait 1": WAITED, "wait for one group less 1": WAITED}
OTHER_STAGE = {"missing barrier 1": "the sums are written to another stage than the last step reads"}
OWN = "items read back what they have written themselves"
CONVOLUTION = layer(Layer(20, CHANNELS, (9, 9)))
CASES = {
    "convolution, multiply-adds": Case(
        layer(Layer(32, CHANNELS, (6, 5))),
        ImplicitGemmChoice(1, 2, (4, 2), slices=8, splits=3, depth=8),
        harmless=LAST_WAIT,
    ),
    "convolution, 3xtf32": Case(
        CONVOLUTION,
        ImplicitGemmChoice(2, 1, (1, 4), 2, 3, depth=4, stages=3, arithmetic="3xtf32"),
        harmless=LAST_WAIT,
    ),
    "convolution, f16": Case(
        CONVOLUTION,
        ImplicitGemmChoice(2, 1, (1, 4), 2, 3, depth=8, stages=3, arithmetic="f16"),
        FLOAT16,
        harmless=LAST_WAIT,
    ),
    "product of a row": Case(
        Product(1, 129, 61).model(),
        GemmChoice(2, 1, (2, 1), 16, splits=2, depth=16),
        harmless=OTHER_STAGE | LAST_WAIT,
    ),
    "product, 3xtf32": Case(
        Product(40, 72, 52).model(),
        GemmChoice(1, 2, (2, 2), depth=4, arithmetic="3xtf32"),
        harmless=LAST_WAIT,
    ),
    "product of two inputs": Case(
        Product(33, 33, 33, (2, 3), False, "b").model(),
        GemmChoice(1, 2, (4, 8), 2, splits=2, depth=2),
        harmless=LAST_WAIT,
    ),
    "product, f16": Case(
        Product(40, 72, 52).model(),
        GemmChoice(1, 2, (2, 2), depth=4, arithmetic="f16"),
        FLOAT16,
        harmless=LAST_WAIT,
    ),
    "product of two inputs, f16": Case(
        Product(33, 48, 40, (2, 3), False, "b").model(),
        GemmChoice(1, 2, (2, 2), depth=4, arithmetic="f16"),
        ("float16", 1e-2),
        harmless=LAST_WAIT,
    ),
    "softmax in shared memory": Case(
        alone("Softmax", (12, 7, 37), axis=-1), harmless={"missing barrier 0": OWN}
    ),
    "softmax of a long row": Case(alone("Softmax", (2, 20000), axis=-1), harmless={"missing barrier 2": OWN}),
    "mean": Case(alone("ReduceMean", (1, 128, 64), axes=[1])),
}


@pytest.mark.parametrize("name", CASES)
def test_every_fault_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    assert state
    case = CASES[name]

    def is_case(contraction: Contraction, machine: Machine, use_winograd: bool) -> Choice:
        matches = isinstance(contraction, Matmul) or contraction.co == CHANNELS
        return case.choice if case.choice and matches else default_choice(contraction, machine, use_winograd)

    monkeypatch.setattr(choices, "default_choice", is_case)
    bed = Bed(case.model, case.of[0], tmp_path, case.of[1])
    assert bed.end() == "right"
    source = bed.sources[0]
    planted = {f"{place.fault.name} {place.place}": place for place in places(source)}
    assert any(fault.startswith("missing barrier") for fault in planted)
    ends = {fault: bed.end(place) for fault, place in planted.items()}
    print("\n".join(f"{name}: {fault}: {end}" for fault, end in ends.items()))
    assert tuple(fault for fault, end in ends.items() if end == "right") == tuple(case.harmless)
    assert not any("cannot compile" in end for end in ends.values())
