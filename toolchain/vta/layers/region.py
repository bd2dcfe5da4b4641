"""A region of a network: layers that are compiled to one program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from toolchain.errors import ToolchainError
from toolchain.vta.layers.knobs import Knobs
from toolchain.vta.layers.layer import ConvLayer


@dataclass(frozen=True)
class RegionLayer:
    """A layer of a region.

    Attributes
    ----------
    source, residual, result
        Names of the values that it reads and writes.
    knobs
        How it is cut; None: the knobs with the fewest estimated cycles.
    """

    layer: ConvLayer
    source: str
    result: str
    residual: str | None = None
    knobs: Knobs | None = None


@dataclass(frozen=True)
class Region:
    """Layers that VTA computes together, by one program; in the program's order.

    Attributes
    ----------
    inputs, outputs
        Names of the values that come from outside the region, and of those that are used outside.
    """

    layers: Sequence[RegionLayer]
    inputs: Sequence[str]
    outputs: Sequence[str]

    def shapes(self) -> dict[str, tuple[int, int, int]]:
        """Return channels, rows and columns of every value.

        Raises
        ------
        ToolchainError
            The layers contradict each other.
        """
        found: dict[str, tuple[int, int, int]] = {}
        for number, (name, shape, made) in enumerate(self._values()):
            if made and name in found:
                raise ToolchainError(f"{name} is computed, but exists already", _REPORT)
            if not made and name not in found:
                if name not in self.inputs:
                    raise ToolchainError(f"{name} is used before it is computed", _REPORT)
                found[name] = shape
            if found.setdefault(name, shape) != shape:
                raise ToolchainError(f"{name} is {found[name]} and {shape}, in use {number}", _REPORT)
        if missing := [name for name in (*self.inputs, *self.outputs) if name not in found]:
            raise ToolchainError(f"no layer has {', '.join(missing)}", _REPORT)
        return found

    def _values(self) -> Iterator[tuple[str, tuple[int, int, int], bool]]:
        """Yield each use of a value: its name, its shape, and whether it is computed there."""
        for each in self.layers:
            shape = each.layer.shape
            yield each.source, (shape.ic, shape.h, shape.w), False
            result = (shape.oc, shape.oh, shape.ow)
            if (each.layer.left is None) != (each.residual is None):
                raise ToolchainError(f"{each.result}: left shifts and a residual come together", _REPORT)
            if each.residual is not None:
                yield each.residual, result, False
            yield each.result, result, True


_REPORT = "this is a defect of the toolchain: please report it with the network"
