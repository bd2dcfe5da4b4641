"""Single convolutions as the core of an Arm board computes it, compiled to objects."""

from __future__ import annotations

from pathlib import Path

import tvm

from tests.backends.packed.single import Layer
from tests.lowering.scheduled import Layer as Fused
from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.algorithms.direct.loops import direct
from toolchain.backends.packed.algorithms.policy import default_choice
from toolchain.backends.packed.algorithms.table import algorithm_of
from toolchain.backends.packed.layout import Layout, dense_layout
from toolchain.backends.packed.machines import machine_of
from toolchain.backends.packed.recognise.convolution import convolution
from toolchain.backends.packed.recognise.read import read
from toolchain.lowering.objects.export import export_objects
from toolchain.profiles import load_profile
from toolchain.targets.target import BoardTarget, target_for

CHANNELS = 16


def default(board: str, layer: Layer, folder: Path) -> Path:
    """Return the object of a layer as a network without records has it, by any algorithm but winograd."""
    target = target_for(load_profile(board))
    machine = machine_of(target)
    found, conv = layer.read()
    choice = default_choice(conv, machine, use_winograd=False)
    assert choice is not None
    plain = dense_layout(machine.lanes, 4)
    inputs = Layout(machine.lanes if conv.ci >= machine.lanes else 1, conv.pads)
    algorithm = algorithm_of(choice)
    packed = [inputs, None, plain, plain, plain]
    layouts = packed if algorithm.values == "packed" else [None] * len(packed)
    func = algorithm.function(found, conv, choice, layouts, machine)
    return _object(func, target, folder)


def compiled(board: str, choice: Choice, size: int, folder: Path) -> Path:
    """Return the object of a 3x3 convolution of a square of `size` for a board class's first cluster."""
    target = target_for(load_profile(board))
    machine = machine_of(target)
    layer = Fused("conv", channels=CHANNELS, outputs=CHANNELS, size=size)
    found = read(layer.function())
    conv = convolution(found)
    assert conv is not None
    layouts = [Layout(machine.lanes, (1, 1, 1, 1)), None, dense_layout(machine.lanes, 4)]
    return _object(direct(found, conv, choice, layouts, machine), target, folder)


def _object(func: tvm.tirx.PrimFunc, target: BoardTarget, folder: Path) -> Path:
    module = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    executable = tvm.compile(module, target=target.target)
    (only,) = export_objects(executable, folder)
    return only
