"""One convolution as the core of an Arm board computes it, compiled to an object."""

from __future__ import annotations

from pathlib import Path

import tvm

from tests.building.functions import Layer
from toolchain.building.cpu.choice import Choice
from toolchain.building.cpu.convolution import convolution
from toolchain.building.cpu.core import core_of
from toolchain.building.cpu.direct import direct
from toolchain.building.cpu.layout import Layout, dense_layout
from toolchain.building.cpu.read import read
from toolchain.building.export import export_objects
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

CHANNELS = 16


def compiled(board: str, choice: Choice, size: int, folder: Path) -> Path:
    """Return the object of a 3x3 convolution of a square of `size` for a board class's first cluster."""
    target = target_for(load_profile(board))
    core = core_of(target)
    layer = Layer("conv", channels=CHANNELS, outputs=CHANNELS, size=size)
    found = read(layer.function())
    conv = convolution(found)
    assert conv is not None
    layouts = [Layout(core.lanes, (1, 1, 1, 1)), None, dense_layout(core.lanes, 4)]
    func = direct(found, conv, choice, layouts, core).with_attr("global_symbol", "main")
    executable = tvm.compile(tvm.IRModule({"main": func}), target=target.target)
    (only,) = export_objects(executable, folder)
    return only
