"""Products of bytes are computed by dot products, to the last step, and touch nothing but their tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm

from tests.backends.packed.dot import Dot
from tests.backends.packed.emulated import Called, run
from tests.backends.packed.integers import LAYERS, Quantised, fused
from tests.lowering.executable import virtual_machine
from toolchain.arrays import Array
from toolchain.backends.packed import machines
from toolchain.backends.packed.dot_products import PAIRS, SDOT, VNNI
from toolchain.backends.packed.machine import FLOATS, Machine
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.rewrite import Made, rewrite
from toolchain.host import host_cpu_flags
from toolchain.lowering.kernels.listing import list_code
from toolchain.profiles import Profile, load_profile
from toolchain.targets.target import target_for

X86 = load_profile("x86_64")
RASPBERRYPI5 = load_profile("raspberrypi5")
# The loops around the instruction, with products that every CPU can compute.
WRITTEN = replace(machines.AVX2.of(1), products=(replace(VNNI, code=Dot), *FLOATS))


def with_vnni() -> Profile:
    """Return the class of hosts whose CPU has VNNI."""
    cluster = X86.clusters[0].model_copy(update={"cpu": "x86-64-v4"})
    return X86.model_copy(update={"clusters": (cluster,), "features": ("+avx512vnni",)})


def functions(layer: Quantised, machine: Machine, profile: Profile) -> Made:
    """Return the layer's own function: the one with a contraction."""
    signed = machine.products_of("int8").depth > 1
    module = fused(layer, signed, target_for(profile).target)
    made = rewrite(module, Choices(machine))
    (found,) = (each for name, each in made.made.items() if "conv" in name or "matmul" in name)
    assert made.rules[next(name for name in made.made if made.made[name] is found)] in (
        "direct",
        "depthwise",
        "dense",
    )
    return found


def called(layer: Quantised, made: Made) -> tuple[Called, Array]:
    """Return a call of the layer's function, and its output as it must be, packed."""
    x, outputs = layer.inputs(), layer.expected(layer.inputs())
    signed = made.parameters[0].dtype == "int8"
    arguments: list[Array] = []
    for parameter in made.parameters[:-1]:
        value = parameter.value
        if value is None:
            value = (x.astype(np.int16) - 128).astype(np.int8) if signed else x
            value = value if parameter.layout is None else parameter.layout.pack(value)
        arguments.append(np.asarray(value))
    out = made.parameters[-1]
    due = outputs if out.layout is None else out.layout.pack(outputs)
    return Called(str(layer), made.func, [*arguments, np.zeros_like(due)]), due


def check(layers: Sequence[Quantised], machine: Machine, profile: Profile, folder: Path) -> None:
    """Run the functions of layers between pages that they must not touch."""
    pairs = [called(layer, functions(layer, machine, profile)) for layer in layers]
    for layer, (_call, due), results in zip(
        layers, pairs, run([call for call, _due in pairs], profile, folder), strict=True
    ):
        for result in results:
            assert np.array_equal(result, due), layer


@pytest.mark.slow
def test_arms_dot_products_compute_every_kind_of_layer(tmp_path: Path) -> None:
    machine = machines.machine_of(target_for(RASPBERRYPI5), integers=True)
    assert SDOT in machine.products
    check(LAYERS, machine, RASPBERRYPI5, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(
    "avx512_vnni" not in host_cpu_flags(), reason="this CPU has no VNNI; qemu has none either"
)
def test_vnni_computes_every_kind_of_layer(tmp_path: Path) -> None:
    profile = with_vnni()
    machine = machines.machine_of(target_for(profile), integers=True)
    assert VNNI in machine.products
    check(LAYERS, machine, profile, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3"])
def test_pairs_of_products_compute_every_kind_of_layer_but_depthwise(level: str, tmp_path: Path) -> None:
    cluster = X86.clusters[0].model_copy(update={"cpu": level})
    profile = X86.model_copy(update={"clusters": (cluster,)})
    machine = machines.machine_of(target_for(profile), integers=True)
    assert PAIRS in machine.products and not machine.columns_of_bytes
    check([each for each in LAYERS if each.groups != each.ci], machine, profile, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("layer", [each for each in LAYERS if each.groups != each.ci], ids=str)
def test_layers_are_right_with_unsigned_inputs_on_every_cpu(layer: Quantised) -> None:
    target = target_for(X86).target
    made = rewrite(fused(layer, False, target), Choices(WRITTEN))
    assert {"direct", "dense"} & set(made.rules.values())
    result = virtual_machine(made.module, target)["main"](tvm.runtime.tensor(layer.inputs()))
    assert np.array_equal(result.numpy(), layer.expected(layer.inputs()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "instruction", "rounds"),
    [(LAYERS[1], "sdot", "frint"), (LAYERS[6], "sdot", "frint")],
    ids=["direct", "depthwise"],
)
def test_the_instruction_is_used_and_nothing_else_rounds(
    layer: Quantised, instruction: str, rounds: str
) -> None:
    machine = machines.machine_of(target_for(RASPBERRYPI5), integers=True)
    made = functions(layer, machine, RASPBERRYPI5)
    code = list_code(made.func, target_for(RASPBERRYPI5).target, "assembly")
    assert instruction in code and rounds not in code
