"""Steps of an unrolled loop: functions that differ by where they read are compiled once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.backends.packed.computed import MACHINES, computed, loaded, named
from tests.lowering.executable import virtual_machine
from tests.models.graphs import graph_of, tensor_info
from toolchain.backends.packed import machines
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.machines import machine_of
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.lowering.graph.pipeline import fuse
from toolchain.lowering.kernels.pickling import pickled
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.load import Model
from toolchain.models.multi_shape import entries, load_shapes
from toolchain.models.options import ModelOptions, shape_options
from toolchain.profiles import load_profile
from toolchain.targets.target import device_target, target_for

pytestmark = pytest.mark.slow

SHAPE = (9, 5, 16)
AXES = [0, 1, 2]
Corner = tuple[int, int, int]


def unrolled(corners: list[Corner], size: Corner) -> Model:
    """Return a network that multiplies boxes of its input, all of one size, and stacks them."""
    weights = {"axes": np.array(AXES), "w": np.linspace(-1, 1, 4 * size[2], dtype="f4").reshape(-1, 4)}
    nodes = []
    for step, corner in enumerate(corners):
        weights[f"begin{step}"] = np.array(corner)
        weights[f"end{step}"] = np.array(corner) + size
        cut = ["x", f"begin{step}", f"end{step}", "axes"]
        nodes.append(helper.make_node("Slice", cut, [f"cut{step}"]))
        nodes.append(helper.make_node("MatMul", [f"cut{step}", "w"], [f"step{step}"]))
    steps = [f"step{step}" for step in range(len(corners))]
    nodes.append(helper.make_node("Concat", steps, ["y"], axis=0))
    shape = (len(corners) * size[0], size[1], 4)
    graph = graph_of(nodes, [tensor_info("x", SHAPE)], [tensor_info("y", shape)], weights)
    onnx.checker.check_model(graph)
    return loaded(graph)


def recipes(model: Model, machine: Machine, outputs: tuple[str, ...] = ()) -> tuple[int, int]:
    """Return how many functions of a network are generated, and how many of them are compiled.

    Parameters
    ----------
    outputs
        Functions beside those of the network: one for each output of such a one, but for the first.
    """
    fused = fuse(model.module, target_for(load_profile("x86_64")).target)
    made = rewrite(fused, Choices(machine)).made
    names = {each.name_hint for each, _func in fused.functions_items() if each.name_hint != "main"}
    assert set(made) == names.union(outputs)
    return len(made), len({pickled(each.recipe) for each in made.values()})


def right(model: Model, machine: Machine) -> bool:
    inputs = sample_inputs(model)
    found, expected = computed(model, inputs, machine), reference_outputs(model, inputs)
    return bool(np.abs(found["y"] - expected["y"]).max() < 1e-5)


@pytest.mark.parametrize("machine", MACHINES, ids=named)
def test_steps_are_one_function_that_is_told_where_to_read(machine: Machine) -> None:
    model = unrolled([(step, 0, 0) for step in range(9)], (1, 5, 16))
    # Slices (the first, at 0, is no exception), the product, and what puts the steps together.
    assert recipes(model, machine) == (11, 3)
    assert right(model, machine)


def test_where_only_few_differ_each_is_its_own() -> None:
    """Such as the parts of a channel shuffle: their places stay constants of the code."""
    model = unrolled([(step, 0, 0) for step in range(3)], (1, 5, 16))
    assert recipes(model, machines.AVX2.of(2)) == (5, 5)


def test_steps_along_several_axes_are_told_all_that_differs() -> None:
    model = unrolled([(step, step % 3, 4) for step in range(6)], (1, 2, 8))
    assert recipes(model, machines.AVX2.of(2)) == (8, 3)
    assert right(model, machines.AVX2.of(2))


def test_the_outputs_of_a_split_are_one_function() -> None:
    weights = {"sizes": np.ones(5, "i8"), "w": np.linspace(-1, 1, 64, dtype="f4").reshape(16, 4)}
    parts = [f"part{number}" for number in range(5)]
    nodes = [helper.make_node("Split", ["x", "sizes"], parts, axis=1)]
    nodes += [helper.make_node("MatMul", [part, "w"], [f"{part}_times"]) for part in parts]
    nodes.append(helper.make_node("Concat", [f"{part}_times" for part in parts], ["y"], axis=0))
    outputs = [tensor_info("y", (5 * SHAPE[0], 1, 4))]
    model = loaded(graph_of(nodes, [tensor_info("x", SHAPE)], outputs, weights))
    others = tuple(f"split_output{number}" for number in range(1, 5))
    assert recipes(model, machines.AVX2.of(2), others) == (7, 3)
    assert right(model, machines.AVX2.of(2))


def test_shapes_whose_steps_differ_by_other_places_share_no_function(tmp_path: Path) -> None:
    """With 8 rows of `x`, steps of `s` and `x` are alike, by rows; with 8 of `y`, of `s` and `y`, by more."""
    corners = {"s": [(0, 0), (1, 0)], "x": [(2, 0), (3, 0)], "y": [(2, 1), (3, 2)]}
    weights = {"axes": np.array([1, 2]), "w": np.linspace(-1, 1, 16, dtype="f4").reshape(4, 4)}
    nodes: list[onnx.NodeProto] = []
    steps: list[str] = []
    for source, corner in ((source, corner) for source, places in corners.items() for corner in places):
        step = f"step{len(steps)}"
        weights[f"{step}_begin"], weights[f"{step}_end"] = np.array(corner), np.add(corner, (1, 4))
        cut = [source, f"{step}_begin", f"{step}_end", "axes"]
        nodes.append(helper.make_node("Slice", cut, [f"{step}_cut"]))
        nodes.append(helper.make_node("MatMul", [f"{step}_cut", "w"], [step]))
        steps.append(step)
    nodes.append(helper.make_node("Concat", steps, ["out"], axis=0))
    inputs = [tensor_info("s", [1, 8, 8]), tensor_info("x", [1, "h", 8]), tensor_info("y", [1, "k", 8])]
    onnx.save(graph_of(nodes, inputs, [tensor_info("out", [6, 1, 4])], weights), tmp_path / "steps.onnx")
    options = ModelOptions(**shape_options(None, ["x=1,{8,4},8", "y=1,{4,8},8"]))
    model = load_shapes(str(tmp_path / "steps.onnx"), options)
    target = target_for(load_profile("x86_64")).target
    vm = virtual_machine(rewrite(fuse(model.module, target), Choices(machines.AVX2.of(2))).module, target)
    for entry, each in zip(entries(model.module), (model, *model.others), strict=True):
        given = sample_inputs(each)
        found = vm[entry](*(tvm.runtime.tensor(given[spec.name]) for spec in each.inputs)).numpy()
        np.testing.assert_allclose(found, reference_outputs(each, given)["out"], rtol=1e-5, atol=1e-6)


def test_a_device_that_runs_kernels_keeps_them_apart() -> None:
    model = unrolled([(step, 0, 0) for step in range(9)], (1, 5, 16))
    found = device_target(load_profile("rk3399"), "opencl")
    machine = machine_of(found)
    assert machine.pieces.fine and recipes(model, machine) == (11, 11)


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_boxes_anywhere_are_read_where_they_lie(data: st.DataObject) -> None:
    size = (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)), data.draw(st.integers(1, 12)))
    corner = st.tuples(*(st.integers(0, whole - own) for whole, own in zip(SHAPE, size, strict=True)))
    corners = data.draw(st.lists(corner, min_size=4, max_size=7))
    machine = data.draw(st.sampled_from(MACHINES))
    assert right(unrolled(corners, size), machine)
