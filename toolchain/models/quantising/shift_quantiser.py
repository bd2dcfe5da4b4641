"""Quantises a float network to 8-bit integers whose scales are powers of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnx

from toolchain.foreign import printable
from toolchain.models.preparing.infer_shapes import infer_shapes, with_explicit_pads
from toolchain.models.preparing.norms import fold_batch_norms
from toolchain.models.preparing.tensor_types import input_specs
from toolchain.models.quantising.calibration import (
    Inputs,
    Tapped,
    check_computed,
    check_stored,
    choose_with_inputs,
    nothing_to_quantise,
)
from toolchain.models.quantising.result import Quantised, Watched, cost_of
from toolchain.models.quantising.shift_exponents import HIGH, ExponentSearch, finest, one_for_all
from toolchain.models.quantising.shift_graph import (
    Layer,
    layer_of,
    rounded_convolution,
    with_integers,
)
from toolchain.models.quantising.shift_sites import Sites, find_sites

FINEST = "power-of-two"
"""The quantizer with an exponent for each tensor."""

GLOBAL_EXPONENT = -4
"""TVM's `global_scale = 8.0`, over 128 steps (tutorials "Deploy Pretrained Vision Model on VTA")."""


@dataclass(frozen=True)
class Shifted(Quantised):
    """A network quantised by powers of two.

    Attributes
    ----------
    layers
        The convolutions in integers, in the graph's order.
    """

    layers: tuple[Layer, ...]


def quantise(model: onnx.ModelProto, quantizer: str, images: Mapping[str, Path], origin: str) -> Shifted:
    """Quantise a network.

    Parameters
    ----------
    model
        A static, folded float32 model.
    quantizer
        `power-of-two`: exponents with the least squared error, for weights one per output channel.
        `global-scale`: one for all activations and one for each layer's weights, as in TVM's tutorials.
    images
        Input -> `.npy` file for calibration; empty: seeded images.

    Raises
    ------
    UsageError
        Nothing can be quantised, a weight is no number, or the images do not fit.
    """
    plain = infer_shapes(fold_batch_norms(with_explicit_pads(model)), origin)
    sites = find_sites(plain)
    if not sites.integers:
        raise nothing_to_quantise(sites.left, "it has one convolution", origin)
    for convolution in (*sites.integers, *sites.rounded.values()):
        for values in (convolution.weight, convolution.bias):
            check_stored(f"convolution {printable(convolution.name)!r}", values, origin)
    specs = input_specs(plain)
    chosen = choose_with_inputs(
        specs, images, lambda samples: _exponents(plain, sites, quantizer, samples, origin)
    )
    exponents = chosen.result
    choose = finest if quantizer == FINEST else one_for_all
    layers = tuple(layer_of(site, exponents, choose) for site in sites.integers)
    floats = {
        position: rounded_convolution(convolution, exponents[convolution.source], choose)
        for position, convolution in sites.rounded.items()
    }
    written = with_integers(plain, layers, floats, exponents)
    graph = infer_shapes(written.model, origin)
    watched = [
        Watched(
            layer.site.name,
            layer.site.result,
            written.integers[layer.site.result],
            2.0 ** exponents[layer.site.result],
            0,
            -HIGH,
            HIGH,
        )
        for layer in layers
    ]
    judge = partial(
        cost_of, plain, graph, watched, chosen.judging, origin, random=not images, quantizer=quantizer
    )
    return Shifted(graph, {"convolution": len(layers)}, sites.left, judge, layers)


def _exponents(
    model: onnx.ModelProto, sites: Sites, quantizer: str, images: Sequence[Inputs], origin: str
) -> dict[str, int]:
    """Return the exponent of each quantised tensor; those of the network's inputs have the least error.

    Raises
    ------
    UnusableSampleError
        onnxruntime cannot compute the graph for these inputs, or not with finite numbers.
    """
    names = {name for site in sites.integers for name in (site.source, site.result, site.residual) if name}
    names.update(convolution.source for convolution in sites.rounded.values())
    inputs = {value.name for value in model.graph.input}
    asked = names if quantizer == FINEST else names & inputs
    tapped = Tapped(model, asked, origin)
    searches = {name: ExponentSearch() for name in asked}
    for number, batch in enumerate(images):
        for name, values in tapped.values(batch).items():
            check_computed(name, values, number, origin)
            searches[name].widen(values)
    for batch in images:  # computed again: memory holds the values of one image, not of all
        for name, values in tapped.values(batch).items():
            searches[name].add(values)
    return {name: GLOBAL_EXPONENT for name in names} | {
        name: search.best for name, search in searches.items()
    }
