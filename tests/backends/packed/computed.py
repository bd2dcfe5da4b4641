"""What generated code makes of small networks, and what onnxruntime makes of them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import tvm

from tests.backends.packed.drawn import Drawn, merged
from tests.lowering.executable import virtual_machine
from toolchain.backends.packed import machines
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.lowering.graph.half import halved
from toolchain.lowering.graph.pipeline import fuse
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

Arrays = dict[str, "np.ndarray"]

# What this host can run, whatever core the code is generated for.
MACHINES = (
    machines.AVX512.of(2),
    machines.AVX2.of(2),
    machines.AARCH64.of(2),
    machines.ARMV7.of(2),
)


def named(machine: Machine) -> str:
    """Return how tests of several cores tell them apart."""
    return machine.isa


# Those of float16: the host's LLVM makes float32 of it where the CPU has no such arithmetic.
HALF_MACHINES = (machines.AVX512.of(2, "float16"), machines.AARCH64.of(2, "float16"))


def loaded(model: onnx.ModelProto) -> Model:
    """Return a network as from a user's file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        onnx.save(model, path)
        return load_model(str(path), ModelOptions())


def computed(model: Model, inputs: Arrays, machine: Machine, winograd: bool = True) -> Arrays:
    """Return the outputs of code generated for a core, compiled for any x86-64 and run here."""
    target = target_for(load_profile("x86_64")).target
    half = machine.dtype == "float16"
    fused = fuse(halved(model.module, model.name) if half else model.module, target)
    made = rewrite(fused, Choices(machine, winograd))
    vm = virtual_machine(made.module, target)
    found = vm["main"](*[tvm.runtime.tensor(inputs[spec.name]) for spec in model.inputs])
    outputs = [found] if len(model.outputs) == 1 and not isinstance(found, tvm.ir.Array) else list(found)
    return {spec.name: output.numpy() for spec, output in zip(model.outputs, outputs, strict=True)}


def wrong(networks: Sequence[Drawn], machine: Machine, winograd: bool = True) -> list[str]:
    """Return the networks whose output is not onnxruntime's, and by how much; compiled as one."""
    model = loaded(merged(networks))
    inputs = sample_inputs(model)
    expected = reference_outputs(model, inputs)
    found = computed(model, inputs, machine, winograd)
    errors = [(network, error(found[f"out{i}"], expected[f"out{i}"])) for i, network in enumerate(networks)]
    return [f"{network!r}: {off:.1e}" for network, off in errors if not off < TOLERANCE[machine.dtype]]


# Below the manifest's: float32 in another order of summation, and winograd's rounding; of float16 the half.
TOLERANCE = {"float32": 1e-4, "float16": 1e-2}


def error(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference / the largest value, infinite where shapes differ."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return np.inf
    return float(np.abs(found - expected).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-30))
