"""Quantises a float network to 8-bit integers with scales of any size, for CPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import onnx

from toolchain.errors import UsageError
from toolchain.foreign import printable
from toolchain.models.preparing.declared import input_specs
from toolchain.models.preparing.infer_shapes import infer_shapes
from toolchain.models.quantising.affine.calibrate import calibrate
from toolchain.models.quantising.affine.index import Index
from toolchain.models.quantising.affine.operators import ANCHORS, IntegerRole
from toolchain.models.quantising.affine.plan import IntegerPlan, plan_integers
from toolchain.models.quantising.affine.scales import TOP, Scale
from toolchain.models.quantising.affine.shared_scales import shared_scales
from toolchain.models.quantising.affine.simplify import simplified
from toolchain.models.quantising.affine.write import Writer
from toolchain.models.quantising.calibration import Inputs, choose_with_inputs
from toolchain.models.quantising.cost import Watched, cost_of
from toolchain.models.quantising.refusing import check_stored, nothing_to_quantise
from toolchain.models.quantising.result import Quantised
from toolchain.models.walk import node_name

_INTEGERS = ("DequantizeLinear", "DynamicQuantize", "QGemm", "QLinear", "QuantizeLinear")
"""How operators of quantised networks begin."""


def quantise(model: onnx.ModelProto, quantizer: str, images: Mapping[str, Path], origin: str) -> Quantised:
    """Quantise a network: uint8 activations with zero points, int8 weights with a scale for each channel.

    Parameters
    ----------
    model
        A static, folded float32 model.
    quantizer
        How the scales of activations are chosen: a key of `ranges.METHODS`.
    images
        Input -> `.npy` file for calibration; empty: seeded images.

    Returns
    -------
    Quantised
        Its graph is in QDQ form, as a file of a quantised network may be.

    Raises
    ------
    UsageError
        Nothing can be quantised, or is quantised already; a weight is no number; or the images do not fit.
    """
    _check_floats(model, origin)
    index = Index(simplified(model, origin))
    plan = plan_integers(index)
    if not any(role in ANCHORS for role in plan.roles.values()):
        raise nothing_to_quantise(plan.left, "it has no convolution and no dense layer", origin)
    _check_weights(index, plan, origin)
    shared = shared_scales(index, plan)

    def scales_for(samples: Sequence[Inputs]) -> dict[str, Scale]:
        return calibrate(index, plan, shared, quantizer, samples, origin)

    chosen = choose_with_inputs(input_specs(index.model), images, scales_for)
    writer = Writer(index, plan, chosen.result)
    graph = infer_shapes(writer.written(), origin)
    judge = partial(
        cost_of,
        index.model,
        graph,
        _watched(index, plan, writer, chosen.result),
        chosen.judging,
        origin,
        random=not images,
        quantizer=quantizer,
    )
    return Quantised(graph, _counts(plan), plan.left, judge)


def _watched(index: Index, plan: IntegerPlan, writer: Writer, scales: Mapping[str, Scale]) -> list[Watched]:
    return [
        Watched(
            node_name(index.nodes[at]),
            name,
            writer.integers[name],
            scales[name].step,
            scales[name].zero,
            0,
            TOP,
        )
        for at, name in sorted(plan.results.items())
    ]


def _counts(plan: IntegerPlan) -> dict[str, int]:
    found = Counter(plan.roles.values())
    return {
        role.value: found[role]
        for role in IntegerRole
        if found[role] and role not in (IntegerRole.MOVE, IntegerRole.LIMIT)
    }


def _check_floats(model: onnx.ModelProto, origin: str) -> None:
    for node in model.graph.node:
        if node.op_type.startswith(_INTEGERS):
            raise UsageError(
                f"{origin}: --dtype int8: it is quantised already, by {node.op_type} "
                f"{printable(node_name(node))!r}",
                "build it without --dtype int8: its own integers are kept",
            )


def _check_weights(index: Index, plan: IntegerPlan, origin: str) -> None:
    for at, role in plan.roles.items():
        for name in filter(None, index.nodes[at].input[1:3] if role in ANCHORS else ()):
            check_stored(f"tensor {printable(name)!r}", index.array(name), origin)
