"""The result of quantising a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import onnx

from toolchain.models.quantising.cost import QuantisingCost


@dataclass(frozen=True)
class Quantised:
    """A quantised network.

    Attributes
    ----------
    graph
        The ONNX graph with inferred shapes, for the importer and for onnxruntime's reference.
    counts
        Kind of layer, such as `convolution` -> how many are computed in integers.
    left
        Name of another layer -> why it is not quantised.
    judge
        Computes the accuracy loss; see `cost`.
    """

    graph: onnx.ModelProto
    counts: Mapping[str, int]
    left: Mapping[str, str]
    judge: Callable[[], QuantisingCost] = field(repr=False, compare=False)

    @cached_property
    def cost(self) -> QuantisingCost:
        """The accuracy loss, computed on first use by running both graphs; only building needs it."""
        return self.judge()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object for `--json`."""
        return {**self.cost.to_json(), "integers": dict(self.counts), "left": dict(self.left)}
