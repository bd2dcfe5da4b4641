"""What the generator makes is what numpy computes, and inside the portable subset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.vta.generated import PYNQ, alone, layer, lint, regions, run
from toolchain.vta.layers.layer import ConvShape
from toolchain.vta.layers.region import Knobs, Region
from toolchain.vta.machine.simulator import Simulator

QUICK = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SMALL = replace(PYNQ, log_uop_buff_size=11, log_inp_buff_size=11, log_wgt_buff_size=15, log_acc_buff_size=13)
"""A design on which hardly anything fits at once."""


@pytest.mark.slow
@QUICK
@given(region=regions())
def test_any_layer_in_any_cut(simulator: Simulator, region: Region) -> None:
    ran = run(simulator, region)
    assert not lint(ran.program)


@pytest.mark.slow
@QUICK
@given(region=regions(SMALL, most=7))
def test_any_layer_on_small_buffers(simulator: Simulator, region: Region) -> None:
    assert not lint(run(simulator, region, SMALL).program)


@pytest.mark.slow
@settings(QUICK, max_examples=500)
@given(region=regions(most=20))
def test_hundreds_of_layers(simulator: Simulator, region: Region) -> None:
    run(simulator, region)


@pytest.mark.slow
@settings(QUICK, max_examples=200)
@given(region=regions(SMALL, most=9))
def test_hundreds_of_layers_on_small_buffers(simulator: Simulator, region: Region) -> None:
    run(simulator, region, SMALL)


@pytest.mark.full
@settings(QUICK, max_examples=5000)
@given(region=regions(most=20))
def test_thousands_of_layers(simulator: Simulator, region: Region) -> None:
    run(simulator, region)


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    [
        ConvShape(1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1),  # one accumulator: the pipeline must be empty each time
        ConvShape(1, 1, 1, 70, 16, 1, 1, 0, 0, 1, 1),
        ConvShape(1, 1, 1, 16, 16, 3, 3, 1, 1, 1, 1),  # all but the middle is padding
        ConvShape(1, 40, 40, 3, 8, 7, 7, 3, 3, 2, 2),  # a network's first
        ConvShape(1, 16, 16, 4, 4, 16, 16, 15, 15, 1, 1),  # as much padding as a LOAD has bits for
        ConvShape(
            1, 300, 300, 1, 1, 1, 1, 0, 0, 1, 1
        ),  # an image with more pixels than a stride has room for
        ConvShape(1, 5, 600, 2, 3, 1, 3, 0, 1, 1, 2),
        ConvShape(1, 3, 40000, 2, 3, 1, 1, 0, 0, 2, 1),  # rows farther apart than a stride has bits for
        ConvShape(1, 2, 65535, 1, 1, 1, 16, 0, 15, 1, 1),  # those of the result, too
        ConvShape(1, 1, 5000, 2, 3, 1, 1, 0, 0, 1, 2048),  # columns farther apart than INP is deep
    ],
    ids=str,
)
@pytest.mark.parametrize("residual", [False, True])
def test_edge_cases_of_layers(simulator: Simulator, shape: ConvShape, residual: bool) -> None:
    ran = run(simulator, alone(layer(shape, 7, residual)))
    assert not lint(ran.program)


@pytest.mark.slow
def test_more_loads_than_a_queue_holds(simulator: Simulator) -> None:
    deep = ConvShape(1, 3, 3, 16 * 900, 16, 1, 1, 0, 0, 2, 2)
    ran = run(simulator, alone(layer(deep), Knobs(2, 2, 300, 1)))
    assert ran.outcome.model.stages.load.instructions > 900
    assert not lint(ran.program)


NARROW = {"log_block": 3, "log_inp_buff_size": 14, "log_wgt_buff_size": 16, "log_acc_buff_size": 16}


@pytest.mark.parametrize("change", [{"hw_ver": "0.0.1"}, {"log_block": 5}, NARROW], ids=str)
def test_layers_for_other_designs(simulator: Simulator, change: dict[str, Any]) -> None:
    other = replace(PYNQ, **change)
    ran = run(simulator, alone(layer(ConvShape(1, 9, 9, 40, 70, 3, 3, 1, 1, 1, 1), 1, residual=True)), other)
    assert not lint(ran.program)


def test_the_same_layer_gives_the_same_program(simulator: Simulator) -> None:
    region = alone(layer(ConvShape(1, 9, 9, 20, 40, 3, 3, 1, 1, 1, 1)))
    first, second = (run(simulator, region).program for _ in range(2))
    assert first.memory() == second.memory()
