"""Times the functions of a network inside it, by CPU time, so that other programs change little."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from toolchain.backends.packed.backend import Packed, PackedNetwork
from toolchain.linking.library import link_library
from toolchain.models.load import Model
from toolchain.profiles import Profile
from toolchain.tasks.options import CodeOptions

Points = dict[str, Any]
Call = tuple[int, str]  # its place in an inference, and the function's name


def lowered(model: Model, profile: Profile) -> PackedNetwork:
    """Return a network whose functions are ready to be compiled, for one thread; close it."""
    backend = Packed(profile, CodeOptions())
    return backend.lower(model, backend.target(None, 1, integers=model.integral), compiles=True)


def compiled(network: PackedNetwork, points: Points, profile: Profile, folder: Path) -> relax.VirtualMachine:
    """Return a network compiled and linked in a new folder."""
    folder.mkdir()
    objects = network.compile(points, folder, lambda _step: None)
    library = folder / "library.so"
    link_library(objects.files, library, profile, None)
    return relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())


def time_calls(machine: relax.VirtualMachine, model: Model, runs: int, least: dict[Call, int]) -> None:
    """Run a network; keep the least CPU time of each call in nanoseconds."""
    generator = np.random.default_rng(0)
    inputs = [
        tvm.runtime.tensor(generator.standard_normal(spec.shape).astype(spec.dtype)) for spec in model.inputs
    ]
    begun = place = 0

    def watch(_function: object, name: str, before: bool, _result: object, *_arguments: object) -> int:
        nonlocal begun, place
        took = time.thread_time_ns() - begun
        if not before and not name.startswith("vm."):
            least[place, name] = min(took, least.get((place, name), took))
            place += 1
        begun = time.thread_time_ns()
        return 0

    machine.set_instrument(watch)
    for _ in range(runs):
        place = 0
        machine["main"](*inputs)


def workloads_of(network: PackedNetwork) -> dict[str, str]:
    """Return the workload of each function of a network's tasks."""
    return {name: task.workload for task in network.tasks for name in task.functions}


def workload_of(name: str, workloads: Mapping[str, str]) -> str:
    """Return the workload of a compiled function: that of its name, or of its name before `_1`."""
    return workloads.get(name) or workloads.get(re.sub(r"_\d+$", "", name), "")
