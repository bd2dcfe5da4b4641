"""What a device of this host computes of networks of one node, and what onnxruntime does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.backends.packed.computed import loaded
from tests.e2e.onnx_nodes.cases import Case as Judged
from tests.e2e.onnx_nodes.judge import compiled_library, run_library
from tests.models.bounds.cases import Case
from toolchain.arrays import Array
from toolchain.models.judging.reference import reference_outputs


def computed(cases: Sequence[Case], device: str, folder: Path) -> list[Array]:
    """Compile networks as one; return the output of each."""
    named = [(Judged(case.name, "", case.model(), (), (), 0, 0), loaded(case.model())) for case in cases]
    library, _ = compiled_library(named, device, folder)
    return run_library(library, [value for case in cases for value in case.given.values()], device, folder)


def expected(case: Case) -> Array:
    """Return what onnxruntime says the output is."""
    return next(iter(reference_outputs(loaded(case.model()), dict(case.given)).values()))
