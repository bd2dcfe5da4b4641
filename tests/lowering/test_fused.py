"""A network as calls of fused functions: its tasks by name, and what it needs of edge-rt."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tvm import relax

from tests.backends.packed.computed import loaded
from tests.backends.packed.drawn import Branches, Network, Pointwise, merged
from tests.backends.packed.windows import Conv
from toolchain.lowering.fused import FusedNetwork, needs_of
from toolchain.profiles import load_profile
from toolchain.targets.target import device_target, target_for

TARGET = target_for(load_profile("rk3399"))


@pytest.fixture(scope="module")
def network() -> Iterator[FusedNetwork]:
    same = (Conv(4), Pointwise("Relu"))
    model = loaded(merged([Network((1, 4, 5, 5), (*same, Branches((same, ())), Conv(3)))]))
    with FusedNetwork(model, TARGET, "NCHW", "", compiles=False) as made:
        yield made


def test_equal_functions_are_one_task_of_that_weight(network: FusedNetwork) -> None:
    (twice,) = (task for task in network.tasks if task.weight > 1)
    assert twice.weight == 2 and twice.shapes[0] == twice.shapes[-1] == (1, 4, 5, 5)
    assert network.fused_task(twice) is twice
    listing = network.listing(twice)
    assert "@T.prim_func" in listing and "T.max(" in listing and "T.parallel" not in listing


def test_functions_of_the_library_are_led_back_to_their_workloads(network: FusedNetwork) -> None:
    named = {
        f"kernel{place}": name for place, task in enumerate(network.tasks) for name in task.functions[:1]
    }
    found = network.workloads({**named, "pack": "a function of nobody"})
    assert found == {f"kernel{place}": task.workload for place, task in enumerate(network.tasks)}


def test_a_reference_takes_what_the_task_takes(network: FusedNetwork) -> None:
    for task in network.tasks:
        parameters = network.reference(task).parameters
        assert [parameter.shape for parameter in parameters] == list(task.shapes[: len(parameters)])


def test_a_network_needs_its_device_and_edge_rts_own_functions() -> None:
    builder, ty = relax.BlockBuilder(), relax.TensorType((4,), "float32")
    x = relax.Var("x", ty)
    with builder.function("main", [x]):
        value = builder.emit(relax.call_dps_packed("edge.b", [x], ty))
        for name in ("vm.builtin.shape", "edge.a", "edge.b"):
            value = builder.emit(relax.call_dps_packed(name, [value], ty))
        builder.emit_func_output(value)
    needs = needs_of(TARGET, builder.get())
    assert (needs.devices, needs.functions) == ((), ("edge.a", "edge.b"))
    assert needs.device == "cpu"
    assert needs_of(device_target(load_profile("rk3399"), "opencl"), builder.get()).device == "opencl"
