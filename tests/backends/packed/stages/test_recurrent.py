"""LSTM, GRU and RNN in generated code: every option on every kind of core, against onnxruntime."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx

from tests.backends.packed.computed import HALF_MACHINES, MACHINES, computed, error, loaded, named
from tests.models.recurrent.cases import GATES, Case, table, together
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.stages.recurrent import recurrence_of, recurrent
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.recurrent.recurrence import Recurrence

pytestmark = pytest.mark.slow


def recurrence(case: Case) -> Recurrence:
    """Return what a case computes."""
    module = loaded(together([case])).module
    found = [recurrence_of(func) for func in module.functions.values() if isinstance(func, tirx.PrimFunc)]
    return next(of for of in found if of is not None)


def wrong(cases: list[Case], machine: Machine, tolerance: float = 1e-5) -> list[str]:
    """Return the cases whose outputs are not onnxruntime's, and by how much."""
    model = loaded(together(cases))
    inputs = sample_inputs(model)
    expected = reference_outputs(model, inputs)
    found = computed(model, inputs, machine)
    off = {name: error(found[name], expected[name]) for name in expected}
    return [
        f"{case} {name}: {value:.1e}"
        for number, case in enumerate(cases)
        for name, value in off.items()
        if name.startswith(f"n{number}_") and not value < tolerance
    ]


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=named)
def test_options(machine: Machine) -> None:
    """Options, of other cells and directions on each core."""
    assert wrong(table()[MACHINES.index(machine) :: 22], machine) == []


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("machine", MACHINES, ids=named)
def test_every_option_on_every_core(machine: Machine) -> None:
    assert wrong(table(), machine) == []


@pytest.mark.slow
def test_nothing_but_the_buffers_is_touched() -> None:
    """Small and odd recurrences between pages that must not be touched, in a process that may die."""
    command = [sys.executable, "-m", "tests.backends.packed.guarded", "recurrences"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    return Case(
        draw(st.sampled_from(sorted(GATES))),
        draw(st.sampled_from(["forward", "reverse", "bidirectional"])),
        steps=draw(st.integers(1, 5)),
        batch=draw(st.integers(1, 9)),
        size=draw(st.integers(1, 20)),
        hidden=draw(st.integers(1, 70)),
        bias=draw(st.booleans()),
        states=draw(st.booleans()),
    )


@pytest.mark.slow
@settings(max_examples=1)
@given(st.lists(cases(), min_size=4, max_size=4), st.sampled_from(MACHINES))
def test_any_shape(drawn: list[Case], machine: Machine) -> None:
    assert wrong(drawn, machine) == []


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
def test_several_cores_share_a_step_of_many_units(cell: str) -> None:
    case = Case(cell, steps=3, batch=1, hidden=520)
    made = recurrent(recurrence(case), MACHINES[0], constant=True)
    assert made.body.kind == tirx.ForKind.SERIAL  # not the one piece, its steps' groups are parallel
    assert wrong([case], MACHINES[0]) == []


def test_products_of_float16_leave_the_states_in_float32() -> None:
    assert wrong([Case("LSTM", hidden=20), Case("GRU")], HALF_MACHINES[0], 5e-3) == []


def test_a_program_can_go_on_where_it_stopped() -> None:
    """Two halves, the second from the states that the first ends with, are the whole."""
    whole = Case("LSTM", steps=6, hidden=20)
    model = loaded(together([whole]))
    inputs = sample_inputs(model)
    expected = computed(model, inputs, MACHINES[0])
    half = together([replace(whole, steps=3)])
    del half.graph.initializer[:]  # its weights are drawn from its steps too
    half.graph.initializer.extend(together([whole]).graph.initializer)
    part = loaded(half)
    y, states = [], inputs
    for start in (0, 3):
        given = {**states, "n0_x": inputs["n0_x"][start : start + 3]}
        found = computed(part, given, MACHINES[0])
        y.append(found["n0_y"])
        states = {"n0_h0": found["n0_h"], "n0_c0": found["n0_c"]}
    np.testing.assert_allclose(np.concatenate(y), expected["n0_y"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(states["n0_c0"], expected["n0_c"], rtol=1e-5, atol=1e-6)


def test_lengths_that_are_inputs_end_their_sequences() -> None:
    """An empty one ends with states of 0, whatever it began with."""
    cases = [
        Case(cell, direction, batch=4, hidden=20, given_lengths=True)
        for cell in GATES
        for direction in ("forward", "reverse", "bidirectional")
    ]
    model = loaded(together(cases))
    given = {f"n{number}_lengths": np.array([3, 0, 4, 1], np.int32) for number in range(len(cases))}
    inputs = {**sample_inputs(model), **given}
    expected = reference_outputs(model, inputs)
    found = computed(model, inputs, MACHINES[0])
    for name, wanted in expected.items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_length_beyond_the_steps_is_refused() -> None:
    model = loaded(together([Case("GRU", "bidirectional", batch=4, given_lengths=True, states=False)]))
    lengths = np.array([3, 0, 9, 1], np.int32)
    with pytest.raises(ValueError, match=r"'n0_lengths' holds 9, .* takes lengths from 0 to 4"):
        computed(model, {**sample_inputs(model), "n0_lengths": lengths}, MACHINES[0])
