"""The shapes of a network agree on how each weight is packed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tvm.ir.expr import GenericConst

from tests.models.sequences import recogniser
from toolchain.backends.packed import machines
from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.algorithms.policy import candidates, default_choice
from toolchain.backends.packed.network.agreement import Agreement, digest_of
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.plan import plans
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.backends.packed.network.steps import Generated, Plan
from toolchain.lowering.graph.pipeline import fuse
from toolchain.lowering.graph.shapes import copied_constants
from toolchain.models.multi_shape import load_shapes
from toolchain.models.options import ModelOptions, shape_options
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

pytestmark = pytest.mark.slow

MACHINE = machines.AVX2.of(2)


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> object:
    source = recogniser(tmp_path_factory.mktemp("several") / "recogniser.onnx", (32, 64, 128))
    model = load_shapes(str(source), ModelOptions(**shape_options(None, ["x=1,3,16,{8,640}"])))
    return fuse(model.module, target_for(load_profile("x86_64")).target)


def contracted(found: Plan) -> Iterator[Generated]:
    for step in found.steps:
        weight = getattr(step.contraction, "weight", None) if isinstance(step, Generated) else None
        if (
            isinstance(step, Generated)
            and weight is not None
            and isinstance(step.argument(weight), GenericConst)
        ):
            yield step


def packed(step: Generated) -> bytes:
    value = step.argument(step.contraction.weight).value.numpy()
    lanes = 1 if step.algorithm.source(step.contraction) is None else MACHINE.lanes
    if step.subject is None:
        return digest_of(value)
    return digest_of(step.algorithm.weight(value, step.contraction, step.choice, MACHINE, lanes))


def test_smaller_shapes_take_the_nearest_tile_that_reads_the_stored_weight(fused: object) -> None:
    large, small = (list(contracted(found)) for found in plans(fused, Choices(MACHINE)).values())
    assert len(large) == len(small) >= 5
    changed = 0
    for one, other in zip(large, small, strict=True):
        assert packed(one) == packed(other)
        assert one.choice == default_choice(one.contraction, MACHINE, True), "the largest shape decides"
        changed += other.choice != default_choice(other.contraction, MACHINE, True)
    assert 0 < changed < len(small)
    assert copied_constants(rewrite(fused, Choices(MACHINE)).module) == {}


def test_a_decided_choice_stays_and_its_copy_is_counted(fused: object) -> None:
    choices = Choices(MACHINE)
    agreed = next(step for step in contracted(plans(fused, choices)["main_1"]) if step.subject is not None)

    def other_layout() -> Choice:
        for choice in candidates(agreed.contraction, MACHINE):
            mine = Generated(
                agreed.var, agreed.value, agreed.function, agreed.read, choice, agreed.contraction
            )
            if mine.subject is not None and packed(mine) != packed(agreed):
                return choice
        raise AssertionError("every choice packs this weight alike")

    decided = Choices(MACHINE, decided={agreed.function: other_layout()})
    steps = contracted(plans(fused, decided)["main_1"])
    assert next(step.choice for step in steps if step.function == agreed.function) == other_layout()
    assert set(copied_constants(rewrite(fused, decided).module)) == {agreed.function}
    default = default_choice(agreed.contraction, MACHINE, True)
    tuned = Choices(MACHINE, decided={agreed.function: default})
    assert copied_constants(rewrite(fused, tuned).module) == {}, "a default that was measured is no reason"


def test_a_weight_that_only_a_small_shape_has_keeps_its_own_tile(fused: object) -> None:
    step = next(contracted(plans(fused, Choices(MACHINE))["main"]))
    weight = step.argument(step.contraction.weight).value.numpy()
    agreement = Agreement(Choices(MACHINE))
    assert agreement.agreed(step.contraction, weight, step.choice) is step.choice
    agreement.store(step.contraction, weight + 1, step.choice)
    assert agreement.agreed(step.contraction, weight, step.choice) is step.choice
