"""Records as tuning would have put them into the store, and what a library computes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import tvm
from tvm import relax

from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.load import Model
from toolchain.records.record import Provenance, Record
from toolchain.records.store import RecordStore
from toolchain.targets.build_for import BuildFor
from toolchain.targets.target import target_for
from toolchain.tasks.candidate import record_key
from toolchain.tasks.task import Task

PROVENANCE = Provenance("run-1", "local", "f00d", "0.27", "0.1.14", "0.1.0")


def add(
    store: RecordStore, task: Task, target: BuildFor, kind: str, payload: str, excluded: str = ""
) -> None:
    """Put a measured record of `task` for exactly this target into the store."""
    key = record_key(task.workload, target_for(target.profile), target.record_class)
    function = store.add_function(task.workload, task.name, task.definition)
    provenance = replace(PROVENANCE, excluded=excluded)
    store.add(Record(key, function, kind, payload, f"{kind} {payload}"[:64], provenance, (1.0,)))


def outputs_on_this_host(library: Path, model: Model, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Run a library by the wheel's own virtual machine."""
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    returned = machine["main"](*[tvm.runtime.tensor(inputs[spec.name]) for spec in model.inputs])
    return [array.numpy() for array in ([returned] if len(model.outputs) == 1 else returned)]


def check_outputs(library: Path, model: Model) -> None:
    """Compare what a library computes on this host with onnxruntime."""
    inputs = sample_inputs(model, seed=7)
    found = outputs_on_this_host(library, model, inputs)
    for ours, theirs in zip(found, reference_outputs(model, inputs).values(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
