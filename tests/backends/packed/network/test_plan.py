"""What a plan decides for a network: which values stay packed, with which halo, and where operands begin."""

from __future__ import annotations

import pytest
from tvm import relax

from tests.backends.packed.computed import loaded
from tests.backends.packed.drawn import Branches, Head, Move, Network, Pointwise, merged
from tests.backends.packed.windows import Conv, Window
from toolchain.backends.packed import machines
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.plan import plan
from toolchain.backends.packed.network.steps import Generated, Plan, extents, packable
from toolchain.lowering.graph.pipeline import fuse
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

MACHINE = machines.AVX2.of(2)
LANES = MACHINE.lanes
SAME = Window((3,) * 3, pads=((1, 1),) * 3)
WIDE = Window((5,) * 3, pads=((2, 2),) * 3)


def planned(*layers: object, channels: int = 2 * LANES) -> Plan:
    """Return the plan of layers on an image of 9x9."""
    network = Network((1, channels, 9, 9), layers)
    fused = fuse(loaded(merged([network])).module, target_for(load_profile("x86_64")).target)
    return plan(fused, Choices(MACHINE, winograd=False))


def generated(found: Plan) -> list[Generated]:
    return [step for step in found.steps if isinstance(step, Generated)]


def test_a_value_has_the_halo_of_all_its_readers() -> None:
    found = planned(Conv(LANES, SAME), Branches(((Conv(LANES, SAME),), (Conv(LANES, WIDE),))))
    steps = generated(found)
    (first,) = (step for step in steps if sum(step.var in each.arguments for each in steps) == 2)
    needs = [
        step.algorithm.halo(step.subject, step.choice, found.machine)
        for step in steps
        if first.var in step.arguments
    ]
    assert first.var in found.packed and len(set(needs)) == 2
    layout = found.layout(first.var)
    assert (layout.lanes, layout.halo) == (LANES, tuple(map(max, *needs)))


def test_a_value_that_a_window_does_not_move_over_has_no_halo() -> None:
    found = planned(Conv(LANES, SAME), Pointwise("silu"), Conv(3 * LANES), Conv(LANES))
    for step in generated(found)[:-1]:
        assert found.layout(step.var).halo == (0, 0, 0, 0)


def test_operands_of_a_concatenation_are_computed_inside_it() -> None:
    found = planned(Branches(((Conv(LANES, SAME),), (Conv(2 * LANES),), (Conv(LANES),))), Conv(LANES))
    ((whole, operands),) = found.concatenations.items()
    assert extents(whole)[1] == 4 * LANES
    assert [offset for _operand, offset in operands] == [0, 1, 3]
    for operand, offset in operands:
        assert found.places[operand] == (whole, offset)
        part = found.layout(operand)
        assert (part.offset, part.whole) == (offset, 4)


def test_operands_that_do_not_begin_at_a_block_are_copied_instead() -> None:
    found = planned(Branches(((Conv(LANES + 1),), (Conv(LANES),))), Conv(LANES))
    assert not found.places and not found.concatenations


def test_what_has_one_pixel_is_not_packed() -> None:
    found = planned(Conv(LANES), Head(10))
    last = generated(found)[-1]
    assert extents(last.var) == (1, 10) and last.var not in found.packed
    assert not packable(last.var, MACHINE)


@pytest.mark.parametrize(
    ("scale", "after", "plain"),
    [
        (4, (), True),
        (2, (), False),  # packing and unpacking costs less than reading packed columns one by one
        (4, (Conv(LANES),), False),  # a convolution reads it packed
    ],
)
def test_an_output_that_is_resized_to_many_times_its_size_is_plain(
    scale: int, after: tuple[Conv, ...], plain: bool
) -> None:
    found = planned(Conv(LANES), Move("upsample", scale), *after)
    (resized,) = (step for step in generated(found) if extents(step.var)[2] == 9 * scale and not step.subject)
    assert (resized.var not in found.packed) == plain
    assert generated(found)[0].var in found.packed


@pytest.mark.parametrize("channels", [1, 3, LANES - 1])
def test_an_input_of_few_channels_is_read_channel_by_channel(channels: int) -> None:
    found = planned(Conv(LANES, SAME), channels=channels)
    (step,) = generated(found)
    (image,) = (each for each in step.arguments if isinstance(each, relax.Var))
    assert found.layout(image).lanes == 1
    assert found.layout(image).halo == (1, 1, 1, 1)
