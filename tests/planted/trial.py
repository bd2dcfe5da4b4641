"""Compares what networks with planted faults compute with what the right ones do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx

from tests.planted.faults import Fault, Region, halves, planted
from tests.planted.networks import Planted
from toolchain.building.tolerances import Expectation, expectation
from toolchain.errors import UsageError
from toolchain.measuring.numerics import TOLERANCE, Comparison, Tolerance, compare
from toolchain.measuring.verify import tolerances_of
from toolchain.models.judging.reference import reference_outputs, seeded_reference
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions

Outputs = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Trial:
    """A network with a fault, and what came of it.

    Attributes
    ----------
    moved
        Whether a part, as the network's author names it, is off by more than its tolerance.
    caught, caught_as_wholes
        Whether the outputs fail as they are compared, and if each is compared as a whole.
    unfit
        Why the wrong network computes nothing that can be compared; empty: it does.
    """

    fault: Fault
    moved: bool
    caught: bool
    caught_as_wholes: bool
    unfit: str = ""


class Judge:
    """A network with its sample, and how outputs are compared with the expected ones."""

    def __init__(self, network: Planted, folder: Path) -> None:
        path = folder / "network.onnx"
        onnx.save(network.write(folder), path)
        self.network = network
        self.model: Model = load_model(str(path), ModelOptions())
        self.expected: Expectation = expectation(
            self.model, seeded_reference(self.model), "cpu", "float32", TOLERANCE["float32"]
        )
        self.tolerances: Mapping[str, Tolerance] = tolerances_of(
            self.outputs, TOLERANCE["float32"], self.expected.tolerances, self.expected.parts
        )

    @property
    def outputs(self) -> Outputs:
        """The expected outputs."""
        return self.expected.reference.outputs

    def regions(self) -> dict[str, list[Region]]:
        """Return the parts of each output as the author names them, else both halves of it."""
        named = list(self.network.parts)
        return {name: named or halves(array.shape) for name, array in self.outputs.items()}

    def faults(self) -> Iterator[Fault]:
        """Yield the network with each fault."""
        typed = onnx.shape_inference.infer_shapes(self.model.onnx)
        for value in typed.graph.output:
            shape = self.outputs[value.name].shape
            value.CopyFrom(
                onnx.helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, shape)
            )
        floats = {
            name: regions
            for name, regions in self.regions().items()
            if np.issubdtype(self.outputs[name].dtype, np.floating)
        }
        yield from planted(typed, floats)

    def computed(self, fault: Fault) -> Outputs:
        """Return what the network with a fault computes.

        Raises
        ------
        UsageError
            Nothing that can be compared.
        """
        return reference_outputs(replace(self.model, onnx=fault.model), self.expected.reference.sample)

    def compare(self, outputs: Outputs) -> Comparison:
        """Compare as `verify` does."""
        return compare(outputs, self.outputs, self.tolerances, self.model.softmax_outputs)

    def moved(self, outputs: Outputs) -> bool:
        """Return whether a part that the author names is off by more than its tolerance."""
        return any(
            self._off(outputs[name][region], expected[region], self.tolerances[name])
            for name, expected in self.outputs.items()
            for region in self.network.parts or [()]
        )

    @staticmethod
    def _off(y: np.ndarray, r: np.ndarray, allowed: Tolerance) -> bool:
        error = np.abs(y.astype(np.float64) - r.astype(np.float64)).max(initial=0)
        if allowed.step is not None:
            return bool(error > (allowed.number + 0.5) * allowed.step)
        return bool(error > allowed.number * np.abs(r.astype(np.float64)).max(initial=0))

    def trial(self, fault: Fault) -> Trial:
        """Return what came of a fault."""
        try:
            outputs = self.computed(fault)
        except UsageError as error:
            return Trial(fault, moved=False, caught=True, caught_as_wholes=True, unfit=error.message)
        wholes = {name: replace(each, ends={}) for name, each in self.tolerances.items()}
        return Trial(
            fault,
            self.moved(outputs),
            not self.compare(outputs).passed,
            not compare(outputs, self.outputs, wholes, self.model.softmax_outputs).passed,
        )
