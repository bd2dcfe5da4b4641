"""Sample inputs of a network, and its expected outputs as computed by onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.models.judging.session import Outputs, ReferenceSession
from toolchain.models.onnx_graph import attributes_of
from toolchain.models.preparing.infer_shapes import infer_shapes
from toolchain.models.preparing.modernise import modernise
from toolchain.models.preparing.tensor_types import dimensions
from toolchain.models.rounding import APPROXIMATED, describe_ties, samples_with_ties
from toolchain.models.samples import Inputs, Sort, UnusableSampleError, first_usable, samples
from toolchain.models.spec import check_inputs

if TYPE_CHECKING:
    from toolchain.models.load import Model


@dataclass(frozen=True)
class Reference:
    """A sample and its expected outputs.

    Attributes
    ----------
    drawn
        How the sample's values were drawn, in words; empty if a user gave them.
    instead_of
        The sort of sample that was tried first, if the network could not use it.
    reason
        Why the network could not use it.
    computed_from
        What the outputs were computed from, in words.
    """

    sample: Mapping[str, np.ndarray]
    outputs: Outputs
    drawn: str = ""
    instead_of: str = ""
    reason: str = ""
    computed_from: str = ""

    def __str__(self) -> str:
        if not self.drawn:
            return "as given"
        why = f"; {self.instead_of} are no use: {self.reason}" if self.instead_of else ""
        return f"seeded, {self.drawn}{why}"

    def to_json(self) -> dict[str, Any]:
        """Return the origin of the sample as a JSON object."""
        return {
            "given": not self.drawn,
            "drawn": self.drawn or None,
            "instead_of": self.instead_of or None,
            "reason": self.reason or None,
            "computed_from": self.computed_from,
        }


def sample_inputs(model: Model, seed: int = 0) -> Inputs:
    """Return an array for each input, the same for the same seed, name, shape and dtype.

    Floats are standard normal, integers small and not negative, booleans even. Not every network can use
    them; see `seeded_reference`.
    """
    return samples(model.inputs, seed)


def seeded_reference(model: Model, seed: int = 0, option: str = "--sample") -> Reference:
    """Return the first sort of seeded inputs that onnxruntime can use, and its outputs.

    Inputs that an operator sees whose result depends on ties or extremes hold some, if the network can use
    them; see `models.rounding`.

    Parameters
    ----------
    option
        Command-line option with which users give their own sample; the hints of errors name it.

    Raises
    ------
    UsageError
        onnxruntime cannot run the graph, or with none of the sorts; see `samples.SORTS`.
    """
    session = ReferenceSession(model, option)

    def attempt(sort: Sort) -> tuple[Inputs, Outputs]:
        inputs = samples(model.inputs, seed, sort)
        return inputs, session.outputs(inputs)

    usable = first_usable(model.inputs, attempt)
    instead_of, reason = next(iter(usable.refused.items()), ("", ""))
    result, drawn = usable.result, usable.drawn
    for extremes in (True, False) if model.ties else ():
        inputs = samples_with_ties(model.inputs, model.ties, seed, usable.sort, extremes=extremes)
        if all(np.array_equal(array, usable.result[0][name]) for name, array in inputs.items()):
            break  # such as integers that are all 1, since the network divides by them
        try:
            result = inputs, session.outputs(inputs)
        except UnusableSampleError:  # such as a row that is masked as a whole: the random sample stays
            continue
        drawn = f"{usable.drawn}, with {describe_ties(model.ties, extremes=extremes)}"
        break
    return Reference(*result, drawn, instead_of, reason, session.computed_from)


def given_reference(model: Model, inputs: Mapping[str, np.ndarray], option: str = "--sample") -> Reference:
    """Return a user's inputs with their outputs; parameters and errors are those of `reference_outputs`."""
    check_inputs(model.inputs, inputs, option)
    session = ReferenceSession(model, option)
    return Reference(inputs, session.outputs(inputs), computed_from=session.computed_from)


def reference_outputs(model: Model, inputs: Mapping[str, np.ndarray], option: str = "--sample") -> Outputs:
    """Return the outputs for given inputs, computed by onnxruntime; see `ReferenceSession`.

    Parameters
    ----------
    option
        Command-line option with which users give their own sample; error messages name it.

    Raises
    ------
    UsageError
        The inputs don't fit, onnxruntime cannot run the graph, or an output is NaN or infinite,
        which nothing can be compared with.
    """
    return given_reference(model, inputs, option).outputs


# Measures with onnxruntime how much different rounding inside a network changes its outputs.

RUNS = 4
"""Number of runs with noise."""

_SCALE_OF = 3
"""Operator of `APPROXIMATED` -> index of its input with the output's scale."""


def noisy_outputs(
    model: Model, inputs: Mapping[str, np.ndarray], rounded: Sequence[str], noise: float
) -> Iterator[Mapping[str, np.ndarray]]:
    """Yield `RUNS` outputs of onnxruntime with small noise added to the floats before rounding.

    Parameters
    ----------
    rounded
        Outputs of the nodes that round, before which noise is added; nodes that only folding wrote, which the
        source graph lacks, are left out.
    noise
        The largest relative change of a float.
    """
    flat = replace(model, onnx=modernise(model.onnx, model.source))
    for seed in range(RUNS):
        yield reference_outputs(replace(model, onnx=_with_noise(flat, rounded, noise, seed)), inputs)


def _with_noise(model: Model, rounded: Sequence[str], noise: float, seed: int) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model.onnx)
    graph = copy.graph
    generator = np.random.default_rng(seed)
    known = infer_shapes(model.onnx, model.source, strict=False).graph
    # onnx and onnxruntime disagree on the extents of pools that round up: all numbers change alike there.
    agreed = not any(attributes_of(node).get("ceil_mode") for node in graph.node)
    widths = {
        value.name: extent[-1]
        for value in (*known.input, *known.value_info)
        if agreed and (extent := dimensions(value)) and isinstance(extent[-1], int)
    }
    stored = {tensor.name: tensor for tensor in graph.initializer}
    nodes = []
    for number, node in enumerate(graph.node):
        if node.output and node.output[0] in rounded:
            place = _SCALE_OF if node.op_type in APPROXIMATED else 0
            old = node.input[place]
            shape = () if place else (widths.get(old, 1),)
            factor = (1 + noise * generator.uniform(-1, 1, shape)).astype(np.float32)
            new = f"{old}/noise/{number}"
            if place and old in stored:
                changed = numpy_helper.to_array(stored[old]) * factor
                graph.initializer.append(numpy_helper.from_array(changed.astype(np.float32), new))
                node.input[place] = new
            elif not place:
                graph.initializer.append(numpy_helper.from_array(factor, f"{new}/factor"))
                nodes.append(helper.make_node("Mul", [old, f"{new}/factor"], [new], new))
                node.input[place] = new
        nodes.append(node)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
    return copy
