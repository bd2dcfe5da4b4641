"""Quantises a float network to 8-bit integers as far as possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import onnx

from toolchain.errors import UsageError
from toolchain.models.preparing.batch_norms import fold_batch_norms
from toolchain.models.preparing.declared import input_specs
from toolchain.models.preparing.infer_shapes import infer_shapes
from toolchain.models.preparing.padding import with_explicit_pads
from toolchain.models.quantising.calibration import CALIBRATING, JUDGING, Inputs, Tapped, given, seeded
from toolchain.models.quantising.cost import QuantisingCost, cost_of
from toolchain.models.quantising.exponents import best_exponent, finest, one_for_all
from toolchain.models.quantising.graph import with_integers
from toolchain.models.quantising.layer import Layer, layer_of, rounded_convolution
from toolchain.models.quantising.sites import Sites, find_sites
from toolchain.models.samples import first_usable

GLOBAL_EXPONENT = -4
"""TVM's `global_scale = 8.0`, over 128 steps (tutorials "Deploy Pretrained Vision Model on VTA")."""


@dataclass(frozen=True)
class Quantised:
    """A quantised network.

    Attributes
    ----------
    graph
        The ONNX graph with inferred shapes, for the importer and for onnxruntime's reference.
    layers
        The convolutions in integers, in the graph's order.
    left
        Name of another convolution or product -> why it is not quantised.
    judge
        Computes the accuracy loss; see `cost`.
    """

    graph: onnx.ModelProto
    layers: tuple[Layer, ...]
    left: Mapping[str, str]
    judge: Callable[[], QuantisingCost] = field(repr=False, compare=False)

    @cached_property
    def cost(self) -> QuantisingCost:
        """The accuracy loss, computed on first use by running both graphs; only building needs it."""
        return self.judge()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object for `--json`."""
        return {**self.cost.to_json(), "left": dict(self.left)}


def quantise(model: onnx.ModelProto, quantizer: str, images: Mapping[str, Path], origin: str) -> Quantised:
    """Quantise a network.

    Parameters
    ----------
    model
        A static, folded float32 model.
    quantizer
        `mse`: the powers of two with the least error, for weights one per output channel. `global-scale`: one
        for all activations and one for the weights of each layer, as in TVM's tutorials.
    images
        Input -> `.npy` file for calibration; empty: seeded images.

    Raises
    ------
    UsageError
        Nothing can be quantised, or the images do not fit.
    """
    plain = infer_shapes(fold_batch_norms(with_explicit_pads(model)), origin)
    sites = find_sites(plain)
    if not sites.integers:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in list(sites.left.items())[:3])
        raise UsageError(
            f"{origin}: --dtype int8: nothing of it can be quantised ({reasons or 'it has one convolution'})",
            "build it with --dtype float32",
        )
    specs = input_specs(plain)
    if images:
        judging = given(specs, images)
        exponents = _exponents(plain, sites, quantizer, judging, origin)
    else:
        usable = first_usable(
            specs,
            lambda sort: _exponents(plain, sites, quantizer, seeded(specs, CALIBRATING, sort), origin),
        )
        exponents, judging = usable.result, seeded(specs, JUDGING, usable.sort)
    choose = finest if quantizer == "mse" else one_for_all
    layers = tuple(layer_of(site, exponents, choose) for site in sites.integers)
    floats = {
        position: rounded_convolution(each, exponents[each.source], choose)
        for position, each in sites.rounded.items()
    }
    written = with_integers(plain, layers, floats, exponents)
    graph = infer_shapes(written.model, origin)
    integers = {name: (whole, exponents[name]) for name, whole in written.integers.items()}
    judge = partial(
        cost_of,
        plain,
        graph,
        layers,
        integers,
        judging,
        origin,
        random=not images,
        quantizer=quantizer,
    )
    return Quantised(graph, layers, sites.left, judge)


def _exponents(
    model: onnx.ModelProto, sites: Sites, quantizer: str, images: Sequence[Inputs], origin: str
) -> dict[str, int]:
    """Return the exponent of each quantised tensor; those of the network's inputs have the least error."""
    names = {name for site in sites.integers for name in (site.source, site.result, site.residual) if name}
    names.update(each.source for each in sites.rounded.values())
    inputs = {value.name for value in model.graph.input}
    asked = names if quantizer == "mse" else names & inputs
    tapped = Tapped(model, asked, origin)
    values = [tapped.values(each) for each in images]
    return {name: GLOBAL_EXPONENT for name in names} | {
        name: best_exponent([each[name] for each in values]) for name in asked
    }
