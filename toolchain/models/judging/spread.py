"""Measures with onnxruntime how much different rounding inside a network changes its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.models.judging.reference import reference_outputs
from toolchain.models.preparing.declared import dimensions
from toolchain.models.preparing.infer_shapes import infer_shapes
from toolchain.models.preparing.modernise import modernise
from toolchain.models.rounding import APPROXIMATED
from toolchain.models.walk import attributes_of

if TYPE_CHECKING:
    from toolchain.models.load import Model

RUNS = 4
"""Number of runs with noise."""

_SCALE_OF = 3
"""Index of the input that is the scale of the output, for operators in `APPROXIMATED`."""


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
