"""On both Arm architectures generated code computes what is due, and touches nothing but its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.script.builder import ir

from tests.backends.packed.computed import loaded
from tests.backends.packed.contractions import CASES, Product, Turned
from tests.backends.packed.drawn import merged
from tests.backends.packed.emulated import Called, run
from tests.backends.packed.guarded import FEW, LAYERS, WINOGRADS, cases
from tests.backends.packed.networks import CASES as NETWORKS
from tests.backends.packed.single import Case, Layer, function
from tests.backends.packed.test_properties import FOUND
from tests.e2e.test_pads import padded
from tests.lowering.executable import virtual_machine
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.machines import AARCH64, machine_of
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.lowering.graph.pipeline import fuse
from toolchain.lowering.schedules.vectors import EXPLICIT
from toolchain.models.judging.reference import sample_inputs
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

BOARDS = ("rk3399", "pynq")
SOME_LAYERS = (Layer(32, 32, (9, 13), stride=2, groups=2), Layer(24, 24, (7, 9), groups=24))
SOME_PRODUCTS = (
    Product(29, 33, 50),
    Turned((5, 6), 32, 20, 3, stride=2, crop=1, more=1),
    Turned((6, 18), 17, 3, 4, stride=2, crop=1),  # few channels
)
SOME_NETWORKS = {
    "rk3399": ("pad by reflection", "ReduceMean [1]"),
    "pynq": ("pad by reflection", "concat columns"),
}


def machine_for(board: str) -> Machine:
    return machine_of(target_for(load_profile(board)))


def check_single(
    board: str, products: Sequence[Product | Turned], layers: Sequence[Case], folder: Path
) -> None:
    """Run products and convolutions, whose outputs are known."""
    machine = machine_for(board)
    made = [(case, *case.made(machine)) for case in products]
    convolved = [(case, *function(case, machine)) for case in layers]
    calls = [Called(str(case), func, arguments) for case, func, arguments, _expected in made]
    calls += [Called(str(case), func, arguments) for case, func, arguments, *_rest in convolved]
    found = run(calls, load_profile(board), folder)
    for (case, _func, _arguments, expected), outputs in zip(made, found, strict=False):
        for output in outputs:
            np.testing.assert_allclose(
                case.plain(output, machine), expected, rtol=1e-4, atol=1e-5, err_msg=str(case)
            )
    for (conv, _func, _packed, expected, layout), outputs in zip(convolved, found[len(made) :], strict=True):
        for output in outputs:
            plain = output if layout is None else layout.unpack(output, expected.shape)
            if layout is not None:
                np.testing.assert_array_equal(layout.pack(plain), output, err_msg=f"{conv}: zeros around it")
            assert np.abs(plain - expected).max() < 2e-5 * np.abs(expected).max(), conv


def calls_of(network: onnx.ModelProto, machine: Machine) -> list[Called]:
    """Return every call of a generated function in a network, made on this host, with what came out."""
    model = loaded(network)
    target = target_for(load_profile("x86_64")).target
    fused = fuse(model.module, target)
    scheduled = rewrite(fused, Choices(machine)).module
    vm = virtual_machine(scheduled, target)
    functions = {str(var.name_hint): func for var, func in scheduled.functions.items()}
    found: list[Called] = []

    def note(_func: object, name: str, before: bool, _result: object, *arguments: object) -> int:
        func = functions.get(name)
        if not before and isinstance(func, tirx.PrimFunc) and generated(func):
            arrays = [each.numpy().copy() for each in arguments if isinstance(each, tvm.runtime.Tensor)]
            if len(arrays) == len(arguments):
                found.append(Called(name, func, arrays, written(func)))
        return 0

    vm.set_instrument(note)
    inputs = sample_inputs(model)
    vm["main"](*[tvm.runtime.tensor(inputs[spec.name]) for spec in model.inputs])
    return found


def generated(func: tirx.PrimFunc) -> bool:
    """Return whether a function is ours; TVM's own rows are none of this test's business."""
    return func.attrs is not None and EXPLICIT in func.attrs


def written(func: tirx.PrimFunc) -> int:
    """Return how many of the last parameters a function stores."""
    stores: list[tirx.BufferStore] = []
    tvm_ffi.structural_walk(func.body, [(tirx.BufferStore, stores.append)])
    params = list(func.params)
    return len(params) - min(
        place for place, param in enumerate(params) if any(each.buffer.same_as(param) for each in stores)
    )


def check_networks(board: str, networks: Sequence[onnx.ModelProto], folder: Path) -> None:
    """Run the functions of networks on what they were called with here, and compare what they wrote."""
    calls = [call for network in networks for call in calls_of(network, machine_for(board))]
    assert len(calls) >= len(networks)
    poisoned = [
        replace(call, arguments=[*call.arguments[: -call.outputs], *map(poison, due(call))]) for call in calls
    ]
    for call, outputs in zip(calls, run(poisoned, load_profile(board), folder), strict=True):
        for output, expected in zip(outputs, due(call) * 2, strict=True):
            # of a concatenation computed in place a function writes a part
            own = ~np.isnan(output) if output.dtype.kind == "f" else np.ones(output.shape, bool)
            assert own.any(), call.name
            np.testing.assert_allclose(output[own], expected[own], rtol=1e-3, atol=1e-4, err_msg=call.name)


def due(call: Called) -> list[np.ndarray]:
    return list(call.arguments[-call.outputs :])


def poison(output: np.ndarray) -> np.ndarray:
    return np.full_like(output, np.nan if output.dtype.kind == "f" else 77)


@pytest.mark.slow
@pytest.mark.parametrize("board", ["rk3399", pytest.param("pynq", marks=pytest.mark.full)])
def test_one_of_each_kind(board: str, tmp_path: Path) -> None:
    layers = [*cases(SOME_LAYERS, machine_for(board)), *cases(FEW[:2], machine_for(board)), WINOGRADS[0]]
    check_single(board, SOME_PRODUCTS, layers, tmp_path)
    some = [each.model(packed=True) for each in NETWORKS if each.name in SOME_NETWORKS[board]]
    (tmp_path / "networks").mkdir()
    check_networks(board, some, tmp_path / "networks")


@pytest.mark.full
@pytest.mark.parametrize("board", BOARDS)
def test_every_single_function(board: str, tmp_path: Path) -> None:
    check_single(board, CASES, [*cases((*LAYERS, *FEW), machine_for(board)), *WINOGRADS], tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "plain"])
@pytest.mark.parametrize("board", BOARDS)
def test_every_operator(board: str, packed: bool, tmp_path: Path) -> None:
    check_networks(board, [each.model(packed=packed) for each in NETWORKS], tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("board", BOARDS)
def test_pads_and_what_was_found(board: str, tmp_path: Path) -> None:
    pads, _names = padded(((37, 64), (80, 96), (160, 112)), (1, 2, 4, 5))
    check_networks(board, [pads, merged(FOUND)], tmp_path)


@pytest.mark.slow  # minutes where nothing was linked for aarch64 yet
@pytest.mark.parametrize(
    ("place", "what"), [(8, "written beside"), (600, "beyond a buffer"), (-1, "beside|beyond")]
)
def test_what_touches_more_is_named(place: int, what: str, tmp_path: Path) -> None:
    def body(nest: Nest) -> None:
        out = ir.arg("out", ir.buffer((8,), "float32"))
        with nest.serial(8) as i:
            ir.buffer_store(out, 1.0, [i + place])

    call = Called("a culprit", build(AARCH64, body), [np.zeros(8, "f4")])
    with pytest.raises(AssertionError, match=f"a culprit ended with 1: .*({what})"):
        run([call], load_profile("rk3399"), tmp_path)
